"""Routes of files in and out of a container. From 1.25 archives are base64, before that text."""

from __future__ import annotations

import base64
import codecs
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import orjson

from zun.api.call import Answer, Call, Handler, Stream, Version
from zun.api.schemas import NULL
from zun.api.table import Route
from zun.api.v1.container_answers import ARCHIVE
from zun.api.v1.container_find import find
from zun.api.v1.models import container_operations as models
from zun.control import containers_archives
from zun.control.containers_archives import Fetched
from zun.domain.lifecycle import require

BASE64 = Version(1, 25)


async def get_archive(call: Call) -> Answer:
    """``data`` and ``stat``, sent while the node reads."""
    row = await find(call, "container:get_archive")
    require("get_archive", row.uuid, row.status)
    text = call.version < BASE64
    found = await containers_archives.get(call.control, call.caller, row, call.args.path, text=text)
    head, tail = b'{"data":"', b'","stat":' + orjson.dumps(_stat(found)) + b"}"
    if text:
        return Answer(Stream(_as_text(head, found, tail)))
    length = len(head) + -(-found.size // 3) * 4 + len(tail)
    return Answer(Stream(_as_base64(head, found, tail), length))


def _stat(found: Fetched) -> dict[str, Any]:
    facts = found.stat
    return {
        "name": facts["name"],
        "size": facts["size"],
        "mode": facts["mode"],
        "mtime": facts["mtime"],
        "linkTarget": facts["link_target"],
    }


async def _as_base64(head: bytes, found: Fetched, tail: bytes) -> AsyncGenerator[bytes, None]:
    yield head
    async with aclosing(found.pieces) as pieces:
        async for piece in pieces:
            yield piece.encode()
    yield tail


async def _as_text(head: bytes, found: Fetched, tail: bytes) -> AsyncGenerator[bytes, None]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    yield head
    async with aclosing(found.pieces) as pieces:
        async for piece in pieces:
            yield orjson.dumps(decoder.decode(base64.b64decode(piece)))[1:-1]
    yield tail


async def put_archive(call: Call) -> Answer:
    """Unpacked by the time of the answer."""
    args: models.PutArchive = call.args
    row = await find(call, "container:put_archive")
    require("put_archive", row.uuid, row.status)
    await containers_archives.put(call.control, call.caller, row, args.path, args.data, text=call.version < BASE64)
    return Answer()


def _route(method: str, name: str, handler: Handler, summary: str, **more: Any) -> Route:
    path = f"/containers/{{container_ident}}/{name}"
    return Route(method, path, f"container.{name}", handler, summary=summary, raises=(404, 409, 413), **more)


ROUTES: list[Route] = [
    _route("GET", "get_archive", get_archive, "Copy out", model=models.GetArchive, answer=ARCHIVE),
    _route("POST", "put_archive", put_archive, "Copy in", model=models.PutArchive, answer=NULL, takes_archive=True),
]
