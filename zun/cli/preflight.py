"""Looks at what the product needs before it starts, so that what is missing is said in one sentence."""

from __future__ import annotations

import contextlib
import errno
import random
import socket
from urllib.parse import urlsplit

from zun.cli.problem import Problem

_TIMEOUT = 3.0  # seconds

_OFFERED = range(20000, 32768)
"""Below the ports that the system gives to connections going out: one of those could take it while Zun is down."""


def free_port() -> int:
    """A port of this machine that nobody listens on now, to be written down and used at every start."""
    while True:
        port = random.choice(_OFFERED)  # noqa: S311 - no secret
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def require_port(host: str, port: int, change: str = "[api]/port in zun.conf or ZUN_PORT") -> None:
    """Raises Problem when the address cannot be listened on; ``change`` says where to choose another."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise Problem(f"Port {port} of {host} is taken by another program; set {change}.") from error
            raise Problem(
                f"Zun cannot listen on {host} port {port}: {error.strerror or error}; set {change}."
            ) from error


def require_engine(api_url: str) -> None:
    """Raises Problem when no Docker engine answers at ``[docker]/api_url``."""
    try:
        answer = _ping(api_url)
    except OSError as error:
        raise Problem(
            f"No Docker engine answers at {api_url} ({error.strerror or error}); "
            "start one, or install it with `apt-get install docker.io` (`make up` does both), "
            "or set [docker]/api_url in zun.conf."
        ) from error
    if b" 200 " not in answer.split(b"\r\n", 1)[0]:
        raise Problem(f"What answers at {api_url} is not a Docker engine; set [docker]/api_url in zun.conf.")


def _ping(api_url: str) -> bytes:
    url = urlsplit(api_url)
    if url.scheme in ("unix", "http+unix"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_TIMEOUT)
            connection.connect(url.path)
            return _get(connection)
    address = (url.hostname or "127.0.0.1", url.port or 2375)
    with socket.create_connection(address, timeout=_TIMEOUT) as connection:
        if address[1] != 2375:  # TLS: that something listens is all that is told without the certificates
            return b"HTTP/1.1 200 OK\r\n"
        return _get(connection)


def _get(connection: socket.socket) -> bytes:
    connection.sendall(b"GET /_ping HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n")
    return connection.recv(4096)
