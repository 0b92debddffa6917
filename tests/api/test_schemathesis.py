"""The served OpenAPI document, run by schemathesis against the running product: no 5xx, no undocumented answer.

The agent runs too (simulated engine), so containers come to life and operations meet every status.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.fuzz.chains import CHECKS
from tests.support import schemathesis_hooks
from tests.support.live import Live, live
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(900)
UNLIMITED = {
    "quota": dict.fromkeys(("containers", "cpu", "memory", "disk"), -1),
    "api": {"stream_seconds": 0.05},
}
TAKES_ALL_AWAY = ("container.delete_several", "capsule.delete_several")
"""Schemathesis draws identifiers from earlier answers, too: these would leave nothing to act on."""
TAKES_THE_NODE_AWAY = ("service.disable", "service.force_down", "service.delete", "service.delete_by_path")
SECONDS = 840


@pytest.fixture
def zun(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "zun", UNLIMITED) as product:
        yield product


def _make_containers(zun: Live, token: str) -> None:
    with zun.http(token) as client:
        for name in schemathesis_hooks.ALIVE:
            body = {"image": "busybox", "name": name, "cpu": 0.1, "memory": 4, "interactive": True}
            assert client.post("/v1/containers?run=true", json=body).status_code == 202
        for name in schemathesis_hooks.ALIVE:
            wait_until(lambda: client.get(f"/v1/containers/{name}").json()["status"] == "Running", 60, "Running")  # noqa: B023


def _without(operations: Sequence[str]) -> list[str]:
    return [f"--exclude-operation-id={name}" for name in operations]


def _run(zun: Live, token: str, *options: str) -> Counter[str]:
    """Runs schemathesis; it has to find nothing. How often each ``operation status`` was answered."""
    before = len(zun.log())
    done = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "run", f"{zun.url}/openapi.json", "--no-color", "--seed=20250101",
            "--generation-database=none", "--continue-on-failure", "--no-shrink", "--warnings=off",
            f"--checks={','.join(CHECKS)}", f"--header=X-Auth-Token: {token}", *options,
        ],
        cwd=zun.state.root,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.support.schemathesis_hooks", "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
    log = zun.log()
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]
    return Counter(" ".join(pair) for pair in re.findall(r"operation=(\S+) status=(\d+)", log[before:]))


def test_every_operation_at_the_newest_version(zun: Live) -> None:
    _make_containers(zun, zun.admin)
    seen = _run(
        zun, zun.admin, "--phases=examples,coverage,fuzzing", "--max-examples=15",
        "--header=OpenStack-API-Version: container 1.40", *_without(TAKES_ALL_AWAY),
    )  # fmt: skip
    for wanted in ("container.create 202", "container.show 200", "container.logs 200", "container.network_list 200",
                   "container.execute 200", "registry.create 201", "host.list 200", "quota.update 200"):  # fmt: skip
        assert seen[wanted] > 2, (wanted, seen)


def test_every_operation_at_any_version_for_a_member(zun: Live) -> None:
    token = zun.token("blue")
    _make_containers(zun, token)
    seen = _run(zun, token, "--phases=examples,coverage,fuzzing", "--max-examples=8", *_without(TAKES_ALL_AWAY))
    for wanted in ("service.list 403", "container.stats 200", "container.logs 200", "container.create 202"):
        assert seen[wanted] > 2, (wanted, seen)


def test_deletes_of_several(zun: Live) -> None:
    _make_containers(zun, zun.admin)
    options = (
        "--phases=examples,coverage,fuzzing",
        "--max-examples=30",
        "--include-operation-id-regex=delete_several$",
    )
    seen = _run(zun, zun.admin, *options)
    for wanted in TAKES_ALL_AWAY:
        assert seen[f"{wanted} 200"] > 2, (wanted, seen)


def test_chains_of_create_and_what_follows(zun: Live) -> None:
    seen = _run(
        zun, zun.admin, "--phases=stateful", "--max-examples=80",
        "--header=OpenStack-API-Version: container 1.40", "--include-operation-id-regex=^container",
        *_without((*TAKES_THE_NODE_AWAY, *TAKES_ALL_AWAY)),
    )  # fmt: skip
    assert seen["container.create 202"] > 10, seen
    # Which operations are drawn is chance; those on what a chain made, by its links, are many.
    done = {name for name in seen if name.endswith((" 200", " 202", " 204"))}
    assert len(done) > 10, seen
