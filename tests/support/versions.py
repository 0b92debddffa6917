"""This version of the product, and the one before the last change to what versions share: tables and operation records.

The earlier one is taken from the repository's history and runs with this interpreter's libraries.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import forks
from tests.support.product import ZUN, Product

ROOT = Path(__file__).parents[2]
SHARED = ("zun/store/migrations/versions", "zun/store/tables.py", "zun/domain/operation.py", "zun/domain/moving.py")
"""What changes when versions beside each other have to agree on something new."""
_PROGRAMS = {
    "zun": "zun.cli.main:main",
    "zun-api": "zun.cli.services:api",
    "zun-compute": "zun.cli.services:compute",
    "zun-db-manage": "zun.cli.db_manage:main",
}


@dataclass(frozen=True)
class Version:
    """``folder``: where its package is; None for this one."""

    revision: str
    folder: Path | None = None

    def command(self, program: str) -> list[str]:
        if self.folder is None:
            return [str(ZUN.with_name(program))]
        module, _, name = _PROGRAMS[program].partition(":")
        begin = f"import sys; from {module} import {name}; sys.argv[0] = {program!r}; {name}()"
        return [sys.executable, "-P", "-c", begin]

    @property
    def env(self) -> dict[str, str]:
        return {} if self.folder is None else {"PYTHONPATH": str(self.folder)}

    def run(self, program: str, *arguments: str) -> str:
        """A command to its end; what it says."""
        command = [*self.command(program), *arguments]
        done = subprocess.run(
            command, env={**os.environ, **self.env}, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


class Service:
    """``zun-api`` or ``zun-compute`` of a product, of one version after the other."""

    def __init__(self, name: str, product: Product) -> None:
        self.name, self._product = name, product
        self._process: forks.Process | None = None

    def start(self, version: Version) -> None:
        command = [*version.command(self.name), "--config-file", str(self._product.state.conf_file)]
        with (self._product.state.root / f"{self.name}.log").open("ab") as log:
            self._process = forks.start(command, stdout=log, stderr=log, env={**os.environ, **version.env})

    def end(self) -> None:
        """With SIGTERM, and exit code 0."""
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(60) == 0
        self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None


def earlier(folder: Path) -> Version:
    """The version before the last commit that changed what is shared, below ``folder``. Without the history, as in an
    unpacked archive, the test is skipped, and says what it needs."""
    changed = _git("log", "-1", "--format=%H", "--", *SHARED).strip()
    if not changed or _git("rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("the version before this one is not there: clone the whole history (git fetch --unshallow)")
    revision = _git("rev-parse", f"{changed}^").strip()
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", revision, "zun"], capture_output=True, timeout=60, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as tar:
        tar.extractall(folder, filter="data")
    version = Version(revision, folder)
    code = "import zun; print(zun.__path__[0])"
    found = _out([sys.executable, "-P", "-c", code], version.env)
    assert found.strip() == str(folder / "zun"), f"{found} is run instead of the earlier version"
    return version


def current() -> Version:
    return Version("the one under test")


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        pytest.skip(f"the version before this one is not there: no clone of the repository ({done.stderr.strip()})")
    return done.stdout


def _out(command: Sequence[str], env: dict[str, str]) -> str:
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout
