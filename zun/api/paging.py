"""Paging parameters of lists, and the ``next`` link."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlencode

from zun.api.call import Call
from zun.api.text import cut
from zun.api.v1.models.common import FREE
from zun.domain.errors import InvalidParameterValue, InvalidValue

PARAMETERS = frozenset({"limit", "marker", "sort_key", "sort_dir", "expand", "resource_url", "all_projects"})
DOCUMENTED = ("limit", "marker", "sort_key", "sort_dir")
"""Names for ``Route.parameters``."""
_NOT_REPEATED = frozenset({"limit", "marker", "after", "sort_key", "sort_dir", "expand", "resource_url"})
_DIGITS = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which page: ``limit`` rows behind ``marker`` in the order named."""

    limit: int
    marker: str | None
    sort_key: str
    sort_dir: str

    @property
    def descending(self) -> bool:
        return self.sort_dir == "desc"


def last(call: Call, name: str) -> str | None:
    """The last value of a query parameter."""
    values = call.query.get(name)
    return values[-1] if values else None


def read(call: Call, sortable: Collection[str], default_key: str = "id") -> Wanted:
    """Raises InvalidValue or InvalidParameterValue (400) naming the parameter."""
    largest: int = call.control.conf.api.max_limit
    limit = largest
    text = last(call, "limit")
    if text is not None:
        if not _DIGITS.fullmatch(text) or int(text) < 1:
            raise InvalidValue("Limit must be positive integer")
        limit = min(int(text), largest)
    sort_key = last(call, "sort_key") or default_key
    if sort_key not in sortable:
        raise InvalidParameterValue(f'The sort_key value "{cut(sort_key)}" is invalid for sorting')
    sort_dir = last(call, "sort_dir") or "asc"
    if sort_dir not in ("asc", "desc"):
        raise InvalidValue(f"Invalid sort direction: {cut(sort_dir)}. Acceptable values are 'asc' or 'desc'")
    return Wanted(limit, last(call, "marker") or None, sort_key, sort_dir)


def next_link(
    call: Call, collection: str, wanted: Wanted, count: int, marker: str | None, after: str | None = None
) -> str | None:
    """URL of the page behind ``marker`` when this one (``count`` rows) is full; filters are repeated. ``after``: the
    marker's place (``zun.api.place``)."""
    if marker is None or count < wanted.limit:
        return None
    pairs = [("sort_key", wanted.sort_key), ("sort_dir", wanted.sort_dir), ("limit", str(wanted.limit))]
    pairs += [(name, value) for name, values in call.query.items() if name not in _NOT_REPEATED for value in values]
    pairs.append(("marker", marker))
    if after is not None:
        pairs.append(("after", after))
    return f"{call.base_url}/v1/{collection}?{urlencode(pairs)}"


def refuse_unknown(call: Call, filters: Collection[str]) -> None:
    """Raise InvalidValue (400) for parameters that are neither paging nor ``filters``."""
    unknown = sorted(name for name in call.query if name not in PARAMETERS and name not in filters)
    if unknown:
        raise InvalidValue(f"Unknown parameters: {', '.join(cut(name) for name in unknown[:10])}")


def free_boolean(call: Call, name: str) -> bool:
    """A free boolean of the query, false when absent; raises InvalidValue (400)."""
    text = last(call, name)
    if text is None:
        return False
    try:
        return FREE.check(text)
    except ValueError:
        raise InvalidValue(f"Invalid value '{cut(text)}' for {name}: it has to be a boolean.") from None
