"""Archives into and out of containers. The node has them on its disk; here they pass in pieces, as base64 text."""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from zun.control.base import Control
from zun.control.containers_queries import ask_node
from zun.domain.caller import Caller
from zun.domain.container import Container
from zun.domain.errors import Base64Exception, RequestTooLarge, Unavailable, ZunError

LOG = logging.getLogger(__name__)

PIECE = 2 * 1024 * 1024
"""Characters of base64 in one message; a multiple of four."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """``size`` of the archive in bytes; ``pieces`` are base64 and join to its base64. To be closed."""

    stat: Mapping[str, Any]
    size: int
    pieces: AsyncGenerator[str, None]


async def get(control: Control, caller: Caller, container: Container, path: str, *, text: bool) -> Fetched:
    """The archive of a path. Raises Invalid (no such path; with ``text``: not UTF-8), RequestTooLarge, and as
    ``ask_node``."""
    params = {"uuid": container.uuid, "path": path, "text": text}
    first = await ask_node(control, caller, container, "get_archive", params)
    return Fetched(first["stat"], int(first["size"]), _pieces(control, caller, container, first))


async def _pieces(
    control: Control, caller: Caller, container: Container, first: Mapping[str, Any]
) -> AsyncGenerator[str, None]:
    transfer, size, piece = first["transfer"], int(first["size"]), str(first["data"])
    offset = 0
    try:
        while True:
            offset += decoded_size(piece)
            yield piece
            if offset >= size:
                return
            params = {"transfer": transfer, "offset": offset}
            piece = await ask_node(control, caller, container, "read_transfer", params)
            if not piece:
                raise Unavailable("The archive ended before its time.")
    finally:
        await _end(control, caller, container, transfer)


async def put(control: Control, caller: Caller, container: Container, path: str, data: str, *, text: bool) -> None:
    """Unpack the archive ``data`` (base64, or with ``text`` the archive itself) in a folder of the container.

    Raises Base64Exception, RequestTooLarge, Invalid (folder or archive refused), and as ``ask_node``.
    """
    pieces = _of_text(control, data) if text else _checked(control, data)
    first = next(pieces, "")
    second = next(pieces, None)
    target = {"uuid": container.uuid, "path": path}
    if second is None:
        await ask_node(control, caller, container, "put_archive", {**target, "data": first})
        return
    transfer: str | None = None
    offset = 0
    try:
        for piece in _chain(first, second, pieces):
            params = {"transfer": transfer, "offset": offset, "data": piece}
            transfer = await ask_node(control, caller, container, "write_transfer", params)
            offset += decoded_size(piece)
        await ask_node(control, caller, container, "put_archive", {**target, "transfer": transfer})
    except BaseException:
        await _end(control, caller, container, transfer)
        raise


async def _end(control: Control, caller: Caller, container: Container, transfer: str | None) -> None:
    """The node forgets it; what it is not told it forgets after a while."""
    if transfer is None:
        return
    try:
        await ask_node(control, caller, container, "end_transfer", {"transfer": transfer})
    except ZunError as error:
        LOG.info("action=end-transfer container=%s result=failed reason=%s", container.uuid, error.message)


def _chain(first: str, second: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield second
    yield from rest


def decoded_size(piece: str) -> int:
    """Bytes of a valid base64 text."""
    return len(piece) // 4 * 3 - (2 if piece.endswith("==") else 1 if piece.endswith("=") else 0)


def _checked(control: Control, data: str) -> Iterator[str]:
    _require_fit(control, decoded_size(data))
    if len(data) % 4:
        raise Base64Exception("The archive has to be base64.")
    for start in range(0, len(data), PIECE):
        piece = data[start : start + PIECE]
        try:
            padded = "=" in piece and start + PIECE < len(data)
            if padded or not piece.isascii():
                raise ValueError("padding within")
            binascii.a2b_base64(piece, strict_mode=True)
        except ValueError as error:  # binascii.Error is one
            raise Base64Exception("The archive has to be base64.") from error
        yield piece


def _of_text(control: Control, data: str) -> Iterator[str]:
    raw = data.encode()
    _require_fit(control, len(raw))
    size = PIECE // 4 * 3
    for start in range(0, len(raw), size):
        yield base64.b64encode(raw[start : start + size]).decode()


def _require_fit(control: Control, size: int) -> None:
    limit = control.conf.api.max_archive_bytes
    if size > limit:
        raise RequestTooLarge(f"The archive is larger than the {limit} bytes that [api]/max_archive_bytes permits.")
