"""``Idempotency-Key`` on creates: a request that is sent again gets the answer it had, and makes nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from zun.api.call import Answer, Call
from zun.control import idempotency
from zun.control.idempotency import Claim, Key
from zun.domain.errors import InvalidValue

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
PATTERN = r"[!-+\--~]{1,255}"
"""Visible ASCII without blanks and commas: a header that came twice is no key."""


async def once(call: Call, make: Callable[[Call, Claim | None], Awaitable[Answer]]) -> Answer:
    """``make``'s answer, or the one it gave before. ``make`` writes its answer with ``kept`` in the transaction of
    what it makes, when it is given a claim.

    Raises InvalidValue for what is no key, IdempotencyKeyReused, IdempotencyKeyInUse.
    """
    text = call.headers.get(HEADER)
    if text is None:
        return await make(call, None)
    if not re.fullmatch(PATTERN, text):
        raise InvalidValue(
            f"The header {HEADER} has to be one text of 1 to 255 visible ASCII characters without blanks and commas."
        )
    found = await idempotency.claim(call.control, _key(call, text), call.stopping)
    if not isinstance(found, Claim):
        return Answer(found["body"], headers={**found["headers"], REPLAYED: "true"})
    async with idempotency.held(found):
        return await make(call, found)


def kept(answer: Answer) -> dict[str, Any]:
    """An answer as it is kept."""
    return {"body": answer.body, "headers": answer.headers}


def _key(call: Call, text: str) -> Key:
    """A key is its user's in a project, for one kind of resource; the same request is the same version, query and
    body, in whatever order."""
    caller, kind = call.caller, call.operation
    whose = orjson.dumps([caller.project_id, caller.user_id, kind, text])
    query = {name: list(values) for name, values in call.query.items()}
    sent = orjson.dumps([str(call.version), query, dict(call.body)], option=orjson.OPT_SORT_KEYS)
    return Key(hashlib.sha256(whose).hexdigest(), hashlib.sha256(sent).hexdigest())
