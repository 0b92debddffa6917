"""A place in a sorted list as text: what ``next`` carries in ``after``, so that the page behind it is the same whatever
became of the marker meanwhile (deleted, or changed in what the list is sorted by)."""

from __future__ import annotations

import base64
import binascii
import math
from datetime import datetime
from typing import Any

import orjson

from zun.domain.errors import InvalidValue

_LONGEST = 4096
_WHOLE = range(2**63)


def write(row_id: int, value: Any) -> str:
    """``value``: of the column that the list is sorted by; times as ISO text."""
    return base64.urlsafe_b64encode(orjson.dumps([row_id, value])).decode().rstrip("=")


def read(text: str, kind: type) -> tuple[int, Any]:
    """Id and value, which is of ``kind`` or None. Raises InvalidValue: a client may have changed the text."""
    try:
        if len(text) > _LONGEST:
            raise ValueError("too long")
        row_id, value = orjson.loads(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
        if type(row_id) is not int or row_id not in _WHOLE:
            raise ValueError("no id")
        return row_id, None if value is None else _of_kind(value, kind)
    except (ValueError, TypeError, binascii.Error):
        raise InvalidValue("The parameter after is not a place in this list; take it as next has it.") from None


def _of_kind(value: Any, kind: type) -> Any:
    if kind is datetime and isinstance(value, str):
        return datetime.fromisoformat(value).replace(tzinfo=None)
    if kind is float and type(value) in (int, float) and math.isfinite(value):
        return float(value)
    if type(value) is not kind:
        raise TypeError
    if isinstance(value, int) and abs(value) not in _WHOLE:
        raise ValueError("larger than a column")
    if isinstance(value, str) and "\x00" in value:
        raise ValueError("no text of a column")
    return value
