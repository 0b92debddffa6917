"""Services tell systemd when they are ready and when they stop."""

from __future__ import annotations

import socket
from pathlib import Path
from uuid import uuid4

import pytest

from zun.cli import systemd


def test_the_state_arrives_at_the_socket_that_systemd_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        systemd.notify("READY=1")
        assert listener.recv(64) == b"READY=1"


def test_the_abstract_namespace_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"zun-test-{uuid4()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}")
        listener.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        systemd.notify("STOPPING=1")
        assert listener.recv(64) == b"STOPPING=1"


def test_a_socket_that_is_gone_is_told_in_the_log_and_does_not_stop_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    systemd.notify("READY=1")
    assert "action=notify" in caplog.text
