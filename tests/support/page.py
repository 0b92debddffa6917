"""How-to pages as an operator follows them: their commands run as they stand, and what they show is seen."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import forks
from tests.support.product import ZUN, Product
from tests.support.stock_client import StockClient

HOW_TO = Path(__file__).parents[2] / "docs" / "howto"
CONF = "/etc/zun/zun.conf"
_BLOCK = re.compile(r"(?ms)^## (.+?)$|^```(\w*)\n(.*?)^```")
_SHAPES = (
    (r"req-[0-9a-f-]{36}", "REQUEST"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00)?", "TIME"),
    (r"(\d+ days?, )?\d+:\d\d:\d\d", "AGE"),
    (r"[-+ ]{2,}", " "),
    (r"\d+", "N"),
)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; ``language`` is empty for what a command shows."""

    heading: str
    language: str
    text: str

    def commands(self, **words: str) -> list[list[str]]:
        """One a line, without comments; ``NAME="web"`` puts that in the place of the page's NAME."""
        text = re.sub(r"\b[A-Z_]{4,}\b", lambda found: words.get(found[0], found[0]), self.text)
        return [shlex.split(line, comments=True) for line in text.splitlines() if line.strip()]


def blocks(name: str, *languages: str) -> list[Block]:
    """Those of ``docs/howto/<name>``, in order; in these languages only, if any are given."""
    found, heading = [], ""
    for match in _BLOCK.finditer((HOW_TO / name).read_text()):
        heading = match[1] or heading
        if match[3] is not None and (not languages or match[2] in languages):
            found.append(Block(heading, match[2], match[3]))
    return found


def shape(text: str) -> list[str]:
    """Its lines without what is another each time: identifiers, times, numbers, widths."""
    for pattern, name in _SHAPES:
        text = re.sub(pattern, name, text)
    return [line.strip(" |") for line in text.splitlines() if line.strip(" |")]


class Operator:
    """Somebody on a machine whose ``zun.conf`` is the product's, with the administrator's credentials."""

    def __init__(self, product: Product) -> None:
        self._conf = str(product.state.conf_file)
        self._product = product

    def run(self, command: Sequence[str], code: int = 0) -> str:
        """What the command says; it has to end with ``code``."""
        done = self._run(list(command))
        assert done.returncode == code, f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        if command[0] == "openstack":
            return StockClient(self._product.url, self._product.admin_token).raw(*command[1:])
        if command[0] == "zun-manage":
            found = [self._conf if word == CONF else word for word in command[1:]]
            named = [] if "--config-file" in found else ["--config-file", self._conf]
            return forks.run([str(ZUN.with_name("zun-manage")), *named, *found], timeout=200)
        assert command[0] == "docker", f"what is {command[0]}?"
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
