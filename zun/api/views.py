"""Links and times as answers show them."""

from __future__ import annotations

from datetime import datetime

from zun.api.call import Call


def links(call: Call, collection: str, ident: str) -> list[dict[str, str]]:
    """``self`` and ``bookmark`` of one object."""
    return [
        {"href": f"{call.base_url}/v1/{collection}/{ident}", "rel": "self"},
        {"href": f"{call.base_url}/{collection}/{ident}", "rel": "bookmark"},
    ]


def location(call: Call, collection: str, ident: str) -> dict[str, str]:
    """The Location header of a create."""
    return {"Location": f"{call.base_url}/v1/{collection}/{ident}"}


def row_time(moment: datetime | None) -> str | None:
    """``YYYY-MM-DD HH:MM:SS[.ffffff]`` of containers and capsules."""
    return None if moment is None else str(moment)


def iso_time(moment: datetime | None) -> str | None:
    """``YYYY-MM-DDTHH:MM:SS.ffffff`` of services and actions."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%f")
