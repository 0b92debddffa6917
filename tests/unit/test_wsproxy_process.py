"""`zun-wsproxy` as a process: it serves, plain or with TLS, and ends when told; what is wrong is one sentence."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.certificates import make_certificates
from tests.support.ports import free_port
from tests.support.wait import wait_until
from zun.store import migrate

pytestmark = pytest.mark.timeout(300)
PROGRAM = Path(sys.executable).with_name("zun-wsproxy")


def configured(folder: Path, port: int, **options: Any) -> Path:
    url = f"sqlite:///{folder}/zun.sqlite"
    migrate.upgrade(url)
    section = {"wsproxy_host": "127.0.0.1", "wsproxy_port": port} | options
    lines = [f"{name} = {value}" for name, value in section.items()]
    file = folder / "zun.conf"
    file.write_text(
        f"[DEFAULT]\nstate_path = {folder}\ntransport_url = unix://{folder}/bus\n[database]\nconnection = {url}\n"
        + "\n".join(["[websocket_proxy]", *lines, ""])
    )
    return file


@contextmanager
def running(file: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([str(PROGRAM), "--config-file", str(file)], stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_serves_and_ends_when_told(tmp_path: Path, tls: bool) -> None:
    port, options = free_port(), dict[str, Any]()
    if tls:
        made = make_certificates(tmp_path / "tls", "proxy")
        options = {"cert": made.certificate, "key": made.key, "ssl_only": True}
    trust = ssl.create_default_context(cafile=str(made.ca)) if tls else True
    url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/"

    def answers() -> bool:
        try:
            return httpx.get(url, verify=trust, trust_env=False, timeout=30).status_code == 405
        except httpx.TransportError:
            return False

    with running(configured(tmp_path, port, **options)) as process:
        wait_until(lambda: process.poll() is not None or answers(), 120, "it serves")
        assert process.poll() is None, process.communicate()[1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_stop_does_not_wait_for_connections_that_ask_for_nothing(tmp_path: Path) -> None:
    """As browsers keep some open to spare."""
    port = free_port()
    with running(configured(tmp_path, port, connect_timeout=100)) as process, ExitStack() as stack:
        wait_until(lambda: process.poll() is not None or listens(port), 120, "it listens")
        for asked in (b"", b"GET /console HTTP/1.1\r\nHost: x"):
            stack.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(asked)
        answer = httpx.get(f"http://127.0.0.1:{port}/", trust_env=False, timeout=30)
        assert answer.status_code == 405  # those before it are taken
        process.send_signal(signal.SIGTERM)
        assert process.wait(50) == 0


def listens(port: int) -> bool:
    with socket.socket() as link:
        return link.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ssl_only": True}, "ssl_only needs a certificate"),
        ({"cert": "/nowhere.pem"}, "/nowhere.pem or key cannot be used"),
        ({"trusted_proxies": "nobody"}, "trusted_proxies"),
        ({"base_url": "http://a/"}, "base_url"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with running(configured(tmp_path, free_port(), **options)) as process:
        error = process.communicate(timeout=120)[1]
    assert process.returncode == 1
    assert said in error
    assert "Traceback" not in error


def test_a_port_that_is_taken_is_told_with_the_option(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        file = configured(tmp_path, taken.getsockname()[1])
        with running(file) as process:
            error = process.communicate(timeout=120)[1]
    assert process.returncode == 1
    assert "[websocket_proxy]/wsproxy_port" in error
