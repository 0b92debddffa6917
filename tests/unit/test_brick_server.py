"""The process os-brick runs in: one fork a call, deadlines, calls called off, and what happens when it dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from tests.support.wait import eventually, wait_until
from zun.volume.brick import Brick, BrickFailed

PROGRAM = """
import os, time
from zun.volume.brick_server import Server

def sleep(seconds):
    time.sleep(seconds)
    return "slept"

def fail():
    raise ValueError("no")

def tool():
    os.system("sleep 600")

def die():
    os.kill(os.getpid(), 9)

calls = {"sleep": sleep, "fail": fail, "tool": tool, "die": die, "pid": os.getpid, "big": lambda: "x" * 300000}
Server(0, 1, calls).serve()
"""


class Child:
    """A server with functions of the test's own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, number: int, **request: Any) -> None:
        assert self.process.stdin
        whole = {"id": number, "arguments": {}, "seconds": 30, **request}
        self.process.stdin.write(orjson.dumps(whole) + b"\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout
        return dict(orjson.loads(self.process.stdout.readline()))

    def children(self) -> list[str]:
        pid = self.process.pid
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.fixture
def server() -> Iterator[Child]:
    child = Child()
    yield child
    assert child.process.stdin
    assert child.process.stdout
    child.process.stdin.close()
    assert child.process.wait(60) == 0
    child.process.stdout.close()


def test_calls_run_side_by_side(server: Child) -> None:
    server.send(1, call="tool")
    server.send(2, call="sleep", arguments={"seconds": 0})
    assert server.answer() == {"id": 2, "result": "slept"}
    server.send(1, cancel=True)
    assert server.answer() == {"id": 1, "error": "it was called off"}


def test_a_fault_is_told(server: Child) -> None:
    server.send(1, call="fail")
    assert server.answer() == {"id": 1, "error": "ValueError: no"}
    server.send(2, call="die")
    assert server.answer() == {"id": 2, "error": "it died"}
    server.send(3, call="nonsense")
    assert server.answer() == {"id": 3, "error": "KeyError: 'nonsense'"}
    server.send(4, call="big")
    assert len(server.answer()["result"]) == 300000


def test_a_call_past_its_deadline_is_killed_with_its_tools(server: Child) -> None:
    server.send(1, call="tool", seconds=0.3)
    assert server.answer() == {"id": 1, "error": "it did not end in time"}
    server.send(2, call="pid")
    assert server.answer()["result"] != server.process.pid
    server.send(3, call="pid")  # the dead are buried with the next call
    server.answer()
    wait_until(lambda: len(server.children()) <= 1, 30, "no process stays")


# -- the agent's side, with the real os-brick ------------------------------------------------------------------------


def make_brick(folder: Path, **volume: Any) -> Brick:
    options = {"use_multipath": False, "timeout_connect": 60, **volume}
    return Brick(
        SimpleNamespace(
            my_block_storage_ip="192.0.2.1", host="here", state_path=str(folder), volume=SimpleNamespace(**options)
        )
    )


LOCAL = {"driver_volume_type": "local", "device_path": "/dev/null"}


async def test_os_brick_answers_and_is_started_again_when_it_died(tmp_path: Path) -> None:
    brick = make_brick(tmp_path)
    try:
        properties = await brick.properties()
        assert (properties["host"], properties["ip"], properties["multipath"]) == ("here", "192.0.2.1", False)
        assert (await brick.connect(LOCAL))["path"] == "/dev/null"
        assert brick._process
        os.kill(brick._process.pid, signal.SIGKILL)
        await eventually(lambda: brick._process and brick._process.returncode is not None, 30, "it died")
        await brick.disconnect(LOCAL, None)
        with pytest.raises(BrickFailed, match="os-brick's connect failed: "):
            await brick.connect({"driver_volume_type": "nonsense"})
    finally:
        await brick.close()


async def test_a_death_during_a_call_is_told(tmp_path: Path) -> None:
    brick = make_brick(tmp_path)
    try:
        await brick.properties()
        assert brick._process
        os.kill(brick._process.pid, signal.SIGSTOP)
        call = asyncio.create_task(brick.connect(LOCAL))
        await eventually(lambda: bool(brick._waiting), 30, "it is asked")
        os.kill(brick._process.pid, signal.SIGKILL)
        with pytest.raises(BrickFailed, match="its process died"):
            await call
    finally:
        await brick.close()


async def test_without_os_brick_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "os_brick"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ImportError('no os-brick')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    brick = make_brick(tmp_path)
    with pytest.raises(BrickFailed, match=r"install zun-ng\[cinder\]"):
        await brick.properties()
    await brick.close()
