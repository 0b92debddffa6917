"""`zun --help`: what the code says of each command reaches the screen whole."""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from zun.cli.main import app


def commands(command: Any, *words: str) -> list[tuple[tuple[str, ...], str]]:
    """Words and documentation of every command below."""
    found = [(words, command.help or "")]
    for name, below in getattr(command, "commands", {}).items():
        found += commands(below, *words, name)
    return found


@pytest.mark.parametrize(("words", "text"), commands(typer.main.get_command(app)))
def test_the_help_of_each_command_is_shown_whole(words: tuple[str, ...], text: str) -> None:
    """Square brackets, as in ``[local]/token_cache_seconds``, are mark-up to the help printer unless escaped."""
    shown = CliRunner().invoke(app, [*words, "--help"]).output
    assert text
    assert re.sub(r"\s+", "", text.replace("\\[", "[")) in re.sub(r"\s+", "", shown)
    assert not re.search(r"(?<!\\)\[[a-z_]+\]/", text)
