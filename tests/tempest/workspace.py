"""A tempest workspace: its configuration, one run of it, and what became of each test."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.testbed import AUTH_URL, PASSWORD, REGION

PLUGIN = "zun_tempest_plugin.tests.tempest.api"
PROGRAM = os.environ.get("ZUN_TEST_TEMPEST") or str(Path(__file__).parents[2] / ".venv-tempest/bin/tempest")
_TEMPLATE = Path(__file__).with_name("tempest.conf")
_LINE = re.compile(
    r"^\{\d+\} (?P<name>(?:setUpClass|tearDownClass) \([\w.]+\)|[\w.]+)"
    r"(?: \[(?P<seconds>[\d.]+)s\])? \.\.\. (?P<result>ok|FAILED|SKIPPED(?:: (?P<reason>.*))?)$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Result:
    """Of one test; ``result`` is ``ok``, ``FAILED`` or ``SKIPPED``."""

    name: str
    result: str
    reason: str
    seconds: float


def require_tempest() -> None:
    """Raises AssertionError where the program is not there."""
    if not Path(PROGRAM).exists():
        raise AssertionError("tempest is not installed; `make tempest` and `make test` install it.")


class Workspace:
    """Made by ``tempest init``. ``cidr``: where the networks of its projects come from, no other workspace's."""

    def __init__(self, folder: Path, *, version: str, catalog_type: str, cidr: str) -> None:
        self.folder = folder
        self.log = folder / "output.txt"
        Path(f"{folder}.home").mkdir()
        self._run("init", str(folder), cwd=folder.parent)
        marks = {
            "FOLDER": str(folder),
            "PASSWORD": PASSWORD,
            "AUTH_URL": AUTH_URL,
            "REGION": REGION,
            "CIDR": cidr,
            "CATALOG_TYPE": catalog_type,
            "VERSION": version,
        }
        text = re.sub("@([A-Z_]+)@", lambda mark: marks[mark[1]], _TEMPLATE.read_text())
        (folder / "etc" / "tempest.conf").write_text(text)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "PYTHON"))}
        return kept | {
            "PATH": f"{Path(PROGRAM).parent}:{os.environ['PATH']}",
            "TEMPEST_CONFIG_DIR": f"{self.folder}/etc",
            "HOME": f"{self.folder}.home",  # where it notes its workspaces
        }

    def _run(self, *arguments: str, cwd: Path, timeout: float = 120) -> str:
        done = subprocess.run(
            [PROGRAM, *arguments],
            cwd=cwd,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"tempest {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def tests(self, regex: str) -> list[str]:
        """Ids of the plugin's tests that match."""
        listed = self._run("run", "--list-tests", "--regex", regex, cwd=self.folder).splitlines()
        return [line for line in listed if line.startswith(PLUGIN)]

    def start(self, tests: Sequence[str]) -> subprocess.Popen[bytes]:
        """One test after the other; the process ends with 0 when none failed."""
        names = self.folder / "tests.txt"
        names.write_text("\n".join(tests) + "\n")
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [PROGRAM, "run", "--serial", "--load-list", str(names)],
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def results(self) -> list[Result]:
        """Of the run, as far as it came."""
        found = _LINE.finditer(self.log.read_text(errors="replace"))
        return [
            Result(one["name"], one["result"].partition(":")[0], one["reason"] or "", float(one["seconds"] or 0))
            for one in found
        ]

    def story(self, last: int = 4000) -> str:
        """The end of what tempest said: the traceback of tests that failed."""
        return self.log.read_text(errors="replace")[-last:]

    def failure(self, result: Result, last: int = 3000) -> str:
        """What tempest says of one test that failed."""
        text = self.log.read_text(errors="replace")
        start = text.find(result.name.rpartition(".")[2])
        part = text[start:] if start >= 0 else text
        end = part.find("\n{0} ", 1)
        return part[: end if end > 0 else None][-last:]
