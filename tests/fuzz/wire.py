"""Bytes to the product and what it answers, each within a deadline."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DEADLINE = 60.0
"""Seconds an answer may take, on a machine that has other things to do as well."""
_LARGEST = 256 * 1024 * 1024
_REQUEST_ID = re.compile(rb"req-[0-9a-f-]{36}")
_PLACE = re.compile(rb"@[a-z]+@")


class Hang(Exception):
    """No end of the answer within the deadline."""


@dataclass(frozen=True)
class Answer:
    """``status`` 0: the connection was closed without one."""

    status: int
    headers: Mapping[bytes, bytes]
    body: bytes
    whole: bool
    seconds: float


NOTHING = Answer(0, {}, b"", True, 0.0)


def filled(data: bytes, places: Mapping[bytes, bytes]) -> bytes:
    """The request with what its placeholders stand for; bodies have none."""
    top, mark, body = data.partition(b"\r\n\r\n")
    return _PLACE.sub(lambda found: places.get(found[0], found[0]), top) + mark + body


def send(port: int, data: bytes, *, framed: bool, patient: bool = False, no_body: bool = False) -> Answer:
    """One request on a connection of its own. Raises Hang."""
    started = time.monotonic()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as link:
            try:
                link.sendall(data)
                if not framed and not patient:
                    link.shutdown(socket.SHUT_WR)
            except OSError as error:  # the other side has heard enough; its answer may still be there
                if isinstance(error, TimeoutError):
                    raise
            return _read(link, started, no_body)
    except TimeoutError as error:
        raise Hang(f"no answer within {DEADLINE:g} seconds") from error


def _read(link: socket.socket, started: float, no_body: bool) -> Answer:
    reader = _Reader(link, started + DEADLINE)
    while True:
        top = reader.until(b"\r\n\r\n")
        if top is None:
            return Answer(0, {}, reader.buffer, True, time.monotonic() - started)
        first, *lines = top.split(b"\r\n")
        status = int(first.split(b" ")[1])
        if status >= 200:
            break
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    body, whole = (b"", True) if no_body or status in (204, 304) else reader.body(headers)
    return Answer(status, headers, body, whole, time.monotonic() - started)


class _Reader:
    """What comes, up to the end of one answer."""

    def __init__(self, link: socket.socket, deadline: float) -> None:
        self._link, self._deadline = link, deadline
        self.buffer = b""

    def _more(self) -> bool:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Hang(f"the answer has no end within {DEADLINE:g} seconds")
        self._link.settimeout(left)
        try:
            part = self._link.recv(262_144)
        except ConnectionResetError:
            return False
        self.buffer += part
        return bool(part) and len(self.buffer) < _LARGEST

    def until(self, mark: bytes) -> bytes | None:
        """What is before ``mark``; None when the connection ended first."""
        while mark not in self.buffer:
            if not self._more():
                return None
        found, _, self.buffer = self.buffer.partition(mark)
        return found

    def exactly(self, size: int) -> bytes | None:
        while len(self.buffer) < size:
            if not self._more():
                return None
        found, self.buffer = self.buffer[:size], self.buffer[size:]
        return found

    def body(self, headers: Mapping[bytes, bytes]) -> tuple[bytes, bool]:
        """The body, and whether all of it came."""
        if headers.get(b"transfer-encoding") == b"chunked":
            return self._chunks()
        if b"content-length" in headers:
            found = self.exactly(int(headers[b"content-length"]))
            return (self.buffer, False) if found is None else (found, True)
        while self._more():
            pass
        return self.buffer, True

    def _chunks(self) -> tuple[bytes, bool]:
        found = b""
        while True:
            line = self.until(b"\r\n")
            piece = None if line is None else self.exactly(int(line.partition(b";")[0], 16) + 2)
            if piece is None:
                return found, False
            if piece == b"\r\n":
                return found, True
            found += piece[:-2]


_MEMBERS = {"request_id", "code", "status", "title", "detail", "links"}
_OPTIONAL = {"max_version", "min_version"}


def faults(answer: Answer, *, framed: bool, no_body: bool) -> list[str]:
    """What is wrong with an answer by the contract: a 5xx, another error body than §7's, none where one is owed."""
    if answer.status == 0:
        return ["the connection was closed without an answer"] if framed else []
    found = []
    if answer.status >= 500:
        found.append(f"status {answer.status}")
    if not _REQUEST_ID.fullmatch(answer.headers.get(b"x-openstack-request-id", b"")):
        found.append(f"status {answer.status} without a request id")
    if not answer.whole:
        found.append(f"status {answer.status} with a body that broke off")
    elif not no_body and answer.status != 204:
        found += _body_faults(answer)
    return found


def _body_faults(answer: Answer) -> list[str]:
    if answer.headers.get(b"content-type") != b"application/json":
        return [f"status {answer.status} with content type {answer.headers.get(b'content-type')!r}"]
    try:
        body = json.loads(answer.body)
    except ValueError:
        return [f"status {answer.status} with a body that is no JSON"]
    if answer.status >= 400 and not _is_refusal(body, answer.status):
        return [f"status {answer.status} with a body that is no refusal"]
    return []


def _is_refusal(body: Any, status: int) -> bool:
    if status == 401:
        error = body.get("error") if isinstance(body, dict) else None
        return isinstance(error, dict) and set(error) == {"code", "title", "message"} and error["code"] == 401
    errors = body.get("errors") if isinstance(body, dict) and set(body) == {"errors"} else None
    if not isinstance(errors, list) or len(errors) != 1 or not isinstance(errors[0], dict):
        return False
    (one,) = errors
    texts = (one.get(name) for name in ("code", "title", "detail", "request_id"))
    return (
        _MEMBERS <= set(one) <= _MEMBERS | _OPTIONAL
        and all(isinstance(text, str) for text in texts)
        and one["status"] == status
        and one["request_id"] == ""
        and one["code"].startswith(("container.", "zun."))
        and isinstance(one["links"], list)
    )
