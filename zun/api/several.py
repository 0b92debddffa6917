"""DELETE of several things in one request: one answer for each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from zun.api.call import Answer, Call
from zun.api.faults import describe
from zun.api.schemas import INTEGER, TEXT, listed, obj

_PARALLEL = 4
"""Deletes of one request at work at once."""

ERROR = obj({"request_id": TEXT, "code": TEXT, "status": INTEGER, "title": TEXT, "detail": TEXT,
             "links": listed({"type": "object"})})  # fmt: skip
ANSWER: dict[str, Any] = obj({"results": listed(obj({"id": TEXT, "status": INTEGER, "error": {"anyOf": [
    ERROR, {"type": "null"}]}}))})  # fmt: skip


async def delete_each(call: Call, idents: Sequence[str], delete: Callable[[str], Awaitable[None]]) -> Answer:
    """200 with what a DELETE of each would have been answered, in the order asked. One that fails stops no other."""
    places = asyncio.Semaphore(_PARALLEL)

    async def one(ident: str) -> dict[str, Any]:
        async with places:
            try:
                await delete(ident)
            except Exception as error:
                status, body = describe(
                    error, base_url=call.base_url, request_id=call.request_id, operation=call.operation
                )
                return {"id": ident, "status": status, "error": body["errors"][0]}
        return {"id": ident, "status": 204, "error": None}

    return Answer({"results": await asyncio.gather(*(one(ident) for ident in idents))})
