"""A process is well while its loops say so; systemd and whoever asks over HTTP are told."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.api import configure
from tests.support.ports import free_port
from tests.support.wait import eventually
from zun import metrics
from zun.cli import systemd
from zun.domain.vitals import Vitals


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_a_loop_is_silent_when_it_said_nothing_for_as_long_as_it_had_named() -> None:
    clock = Clock()
    vitals = Vitals(clock)
    assert vitals.silent() == []
    vitals.beat("sync", 60)
    vitals.beat("inventory", 90)
    clock.seconds += 60
    assert vitals.silent() == []
    clock.seconds += 1
    assert vitals.silent() == ["sync"]
    clock.seconds += 30
    assert vitals.silent() == ["inventory", "sync"]
    vitals.beat("sync", 60)
    assert vitals.silent() == ["inventory"]


def test_healthcheck_names_what_does_not_go_on(tmp_path: Path) -> None:
    clock, port = Clock(), free_port()
    vitals = Vitals(clock)
    vitals.beat("worker", 5)
    with metrics.serving(configure(tmp_path, {"metrics.compute_port": port}), "compute", vitals):
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
            answer = client.get("/healthcheck")
            assert (answer.status_code, answer.text) == (200, "OK\n")
            clock.seconds += 6
            answer = client.get("/healthcheck")
            assert (answer.status_code, answer.text) == (503, "These do not go on: worker\n")
            assert "zun_tasks" in client.get("/metrics").text


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Where systemd would listen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listener


def words(listener: socket.socket) -> list[bytes]:
    found = []
    with contextlib.suppress(BlockingIOError):
        while True:
            found.append(listener.recv(64))
    return found


async def test_systemd_hears_of_it_while_all_is_well_and_not_while_a_loop_stands(
    told: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "60000")
    clock = Clock()
    vitals = Vitals(clock)
    watching = asyncio.create_task(systemd.watch(vitals))
    try:
        await eventually(lambda: b"WATCHDOG=1" in words(told), 30, "it is told")
        vitals.beat("sync", 10)
        clock.seconds += 11
        await eventually(lambda: "action=health result=unwell loops=sync" in caplog.text, 30, "it is in the log")
        words(told)
        await asyncio.sleep(0.2)  # ten turns
        assert words(told) == []
        vitals.beat("sync", 10)
        await eventually(lambda: b"WATCHDOG=1" in words(told), 30, "it is told again")
        assert "action=health result=well again loops=sync" in caplog.text
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


@pytest.mark.parametrize(
    ("usec", "pid", "seconds"),
    [("90000000", None, 90.0), ("90000000", "1", None), ("", None, None), ("0", None, None), ("soon", None, None)],
)
def test_only_the_process_that_systemd_watches_tells(
    monkeypatch: pytest.MonkeyPatch, usec: str, pid: str | None, seconds: float | None
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    if pid:
        monkeypatch.setenv("WATCHDOG_PID", pid)
    assert systemd.watchdog_seconds() == seconds
