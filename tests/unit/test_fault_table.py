"""Each test that the table of faults names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "faults.md"
NAMED = sorted(set(re.findall(r"`(tests/[\w/.]+::\w+)`", PAGE.read_text())))


def test_every_row_names_a_test() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "| tests |" not in line]
    assert len(rows) > 20
    assert [row for row in rows if "`tests/" not in row] == []


@pytest.mark.parametrize("named", NAMED)
def test_it_exists(named: str) -> None:
    path, _, name = named.partition("::")
    tree = ast.parse((ROOT / path).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
