"""What the plugin expects of the machine's Docker, for the time of a run: TCP port 2375, and images of its names."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.engine import SOCKET, Engine
from tests.support.wait import wait_until

PORT = 2375
"""No option of the plugin moves it."""
DAEMON = Path("/etc/docker/daemon.json")
_LOCK = Path("/tmp/zun-tempest.lock")


@contextlib.contextmanager
def only_run() -> Iterator[None]:
    """One run at a time on a machine: the port and the engine's configuration are shared. Others wait."""
    with _LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def forwarder() -> Iterator[None]:
    """127.0.0.1:2375 is the engine's socket."""
    server = socket.create_server(("127.0.0.1", PORT))
    threading.Thread(target=_accept, args=(server,), daemon=True).start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def _accept(server: socket.socket) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return  # closed
        threading.Thread(target=_join, args=(client,), daemon=True).start()


def _join(client: socket.socket) -> None:
    """Both ways until either side ends; both ends are closed then."""
    with client, socket.socket(socket.AF_UNIX) as engine:
        engine.connect(SOCKET)
        back = threading.Thread(target=_copy, args=(engine, client), daemon=True)
        back.start()
        _copy(client, engine)
        back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def mirror(registry: str, engine: Engine) -> Iterator[None]:
    """The engine asks ``registry`` for images of Docker Hub's names. Its configuration is put back afterwards."""
    before = DAEMON.read_bytes() if DAEMON.exists() else None
    options: dict[str, Any] = json.loads(before) if before else {}
    wanted = [f"http://{registry}/", *options.get("registry-mirrors", [])]
    try:
        _configure(engine, options | {"registry-mirrors": wanted})
        yield
    finally:
        # An option that is only left out keeps its value over a reload.
        _configure(engine, options | {"registry-mirrors": options.get("registry-mirrors", [])})
        if before is None:
            DAEMON.unlink()
        else:
            DAEMON.write_bytes(before)


def _configure(engine: Engine, options: dict[str, Any]) -> None:
    """Write, reload (containers go on running), and wait until the engine says so."""
    DAEMON.parent.mkdir(exist_ok=True)
    draft = DAEMON.with_suffix(".zun")
    draft.write_text(json.dumps(options, indent=2))
    shutil.move(draft, DAEMON)
    os.kill(int(Path("/var/run/docker.pid").read_text()), signal.SIGHUP)
    wanted = options["registry-mirrors"]

    def reloaded() -> bool:
        mirrors = engine.get("/info")["RegistryConfig"]["Mirrors"] or []
        return [one.rstrip("/") for one in mirrors] == [one.rstrip("/") for one in wanted]

    wait_until(reloaded, 20, f"the engine's mirrors are {wanted}")
