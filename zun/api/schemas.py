"""Pieces of JSON schemas for answers in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NULL: dict[str, Any] = {"type": "null"}
TEXT: dict[str, Any] = {"type": "string"}
TEXT_OR_NULL: dict[str, Any] = {"type": ["string", "null"]}
INTEGER: dict[str, Any] = {"type": "integer"}
NUMBER: dict[str, Any] = {"type": "number"}
BOOLEAN: dict[str, Any] = {"type": "boolean"}
UUID: dict[str, Any] = {"type": "string", "format": "uuid"}
TEXTS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}
"""An object whose values are texts."""
LINKS: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"href": TEXT, "rel": TEXT},
        "required": ["href", "rel"],
    },
}


def obj(properties: Mapping[str, Any], optional: frozenset[str] = frozenset()) -> dict[str, Any]:
    """An object with these ``properties`` and no others, all but the ``optional`` ones required."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def listed(item: Mapping[str, Any]) -> dict[str, Any]:
    """A list of ``item``."""
    return {"type": "array", "items": dict(item)}


def wrapped(name: str, properties: Mapping[str, Any], optional: frozenset[str] = frozenset()) -> dict[str, Any]:
    """``{name: {...}}``."""
    return obj({name: obj(properties, optional)})


def listing(
    name: str, properties: Mapping[str, Any], *, paged: bool = True, optional: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """``{name: [{...}], next}``."""
    found: dict[str, Any] = {name: {"type": "array", "items": obj(properties, optional)}}
    if paged:
        found["next"] = TEXT_OR_NULL
    return obj(found)
