"""The unmodified `openstack` command with python-zunclient, in a virtual environment of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.stock_runner import runner
from tests.support.testbed import AUTH_URL, Account

_DEFAULT = Path(__file__).parents[2] / ".venv-clients" / "bin" / "openstack"


class StockClient:
    """Runs `openstack …` the way a user does who sourced openrc."""

    def __init__(self, url: str, token: str) -> None:
        self.program = Path(os.environ.get("ZUN_TEST_OPENSTACK", _DEFAULT))
        if not self.program.exists():
            pytest.fail(
                f"The stock client is not at {self.program}: `make test` installs it, or set ZUN_TEST_OPENSTACK."
            )
        clean = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        self.env = {**clean, "OS_AUTH_TYPE": "admin_token", "OS_ENDPOINT": f"{url}/v1", "OS_TOKEN": token}

    @classmethod
    def with_password(cls, account: Account, region: str) -> StockClient:
        """As a user who logs in at the testbed's Keystone and finds us in the catalog of ``region``."""
        made = cls("", "")
        made.env = {name: value for name, value in made.env.items() if not name.startswith("OS_")} | {
            "OS_AUTH_URL": AUTH_URL,
            "OS_USERNAME": account.user,
            "OS_PASSWORD": account.password,
            "OS_PROJECT_NAME": account.project,
            "OS_USER_DOMAIN_ID": "default",
            "OS_PROJECT_DOMAIN_ID": "default",
            "OS_REGION_NAME": region,
            "OS_IDENTITY_API_VERSION": "3",
        }
        return made

    def raw(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Exit code and both streams as they are."""
        return runner(self.program).run(list(arguments), self.env, timeout)

    def text(self, *arguments: str, timeout: float = 120) -> str:
        """Standard output of a command that has to succeed."""
        done = self.raw(*arguments, timeout=timeout)
        assert done.returncode == 0, f"openstack {' '.join(arguments)}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, *arguments: str, timeout: float = 120) -> Any:
        """Parsed output of a command that takes ``-f json``; run and create, which take all that follows the image as
        the container's command, name it themselves before that."""
        asked = () if "-f" in arguments else ("-f", "json")
        return json.loads(self.text(*arguments, *asked, timeout=timeout))

    def container(self, *arguments: str, timeout: float = 120) -> Any:
        """``openstack appcontainer … -f json``."""
        return self.json("appcontainer", *arguments, timeout=timeout)


def together(*calls: Callable[[], Any]) -> list[Any]:
    """The results of calls made side by side: each takes a good part of a second."""
    with ThreadPoolExecutor(4) as pool:
        return [made.result() for made in [pool.submit(call) for call in calls]]


def refused(done: subprocess.CompletedProcess[str], status: int, text: str) -> None:
    """The user read ``text`` (a pattern), the status and the request id, and no traceback."""
    said = done.stdout + done.stderr
    assert re.search(rf"(?:{text}) \(HTTP {status}\) \(Request-ID: req-[0-9a-f-]{{36}}\)", said), said
    assert "Traceback" not in said
