"""Asks once, says it by the exit code:  probe.py engine URL  |  probe.py http URL

Standard library only: it runs before the virtual environment exists.
"""

import http.client
import socket
import sys
from urllib.parse import urlsplit

TIMEOUT = 3.0  # seconds


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float = TIMEOUT) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def connect(url: str, timeout: float = TIMEOUT) -> http.client.HTTPConnection:
    """A connection for unix:///path, tcp://host:port or http://host:port."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return UnixConnection(parts.path, timeout)
    return http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=timeout)


def answers(kind: str, url: str) -> bool:
    """Whether the engine, or an HTTP service, says 200."""
    connection = connect(url)
    try:
        connection.request("GET", "/_ping" if kind == "engine" else urlsplit(url).path or "/")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(0 if answers(sys.argv[1], sys.argv[2]) else 1)
