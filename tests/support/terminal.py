"""A session's address opened as a program would: bytes typed, output awaited, the end told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

_SECONDS = 60.0


class Terminal:
    """One open session; ``text`` is all that came."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.text = b""
        self._seen = 0

    def type(self, text: str | bytes) -> None:
        """Keys; Return is ``\\r``."""
        self.connection.send(text.encode() if isinstance(text, str) else text)

    def until(self, wanted: str | bytes, timeout: float = _SECONDS) -> bytes:
        """What came since the last time, through ``wanted``."""
        mark = wanted.encode() if isinstance(wanted, str) else wanted
        deadline = time.monotonic() + timeout
        while (at := self.text.find(mark, self._seen)) < 0:
            left = deadline - time.monotonic()
            assert left > 0, f"{mark!r} does not come; it is {self.text[self._seen :]!r}"
            try:
                message = self.connection.recv(left)
            except ConnectionClosed as error:
                raise AssertionError(f"{mark!r} did not come before the end, {error}: {self.text!r}") from error
            except TimeoutError:
                continue
            self.text += message if isinstance(message, bytes) else message.encode()
        begin, self._seen = self._seen, at + len(mark)
        return self.text[begin : self._seen]

    def run(self, line: str) -> str:
        """A shell's output for one line, without echo and prompt."""
        number = f"{time.monotonic_ns()}"
        self.type(f"{line}; echo done-$((1+1))-{number}\r")
        said = self.until(f"done-2-{number}").decode()
        return said.rpartition("done-2-")[0].rpartition(number)[2].strip()  # what is typed ahead is echoed twice

    def end(self, timeout: float = _SECONDS) -> tuple[int, str]:
        """Close code and reason, once it ends; what comes before is kept."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                message = self.connection.recv(max(0.1, deadline - time.monotonic()))
            except ConnectionClosed as error:
                closed = error.rcvd
                return (closed.code, closed.reason) if closed else (1006, "")
            except TimeoutError:
                raise AssertionError(f"it does not end: {self.text!r}") from None
            self.text += message if isinstance(message, bytes) else message.encode()


@contextmanager
def terminal(url: str, **more: Any) -> Iterator[Terminal]:
    """Opens it as the stock client does."""
    settings: dict[str, Any] = {
        "subprotocols": ["binary", "base64"],
        "compression": None,
        "proxy": None,
        "open_timeout": 60,
    }
    with connect(url, **settings | more) as connection:
        yield Terminal(connection)
