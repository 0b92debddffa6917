"""Pydantic's findings as the contract's error texts."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from zun.api.text import cut, shown
from zun.domain.errors import SchemaValidationError

_M = TypeVar("_M", bound=BaseModel)
_TYPES = {
    "string_type": "string",
    "list_type": "array",
    "dict_type": "object",
    "model_type": "object",
    "model_attributes_type": "object",
    "int_type": "integer",
    "float_type": "number",
    "bool_type": "boolean",
}


def validate(model: type[_M], values: Mapping[str, Any], from_query: Container[str] = ()) -> _M:
    """An instance of ``model``; raises SchemaValidationError (400) naming the first fault.

    ``from_query`` holds the members that came with the query: their errors have another text.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise SchemaValidationError(explain(error, from_query)) from None


def explain(error: ValidationError, from_query: Container[str] = ()) -> str:
    """The contract's text for the first fault; unknown members are named together."""
    found = error.errors(include_url=False, include_context=False, include_input=True)
    first = found[0]
    kind, place = first["type"], first["loc"]
    if kind == "missing":
        return f"{cut(str(place[-1]))!r} is a required property"
    unknown = [str(one["loc"][-1]) for one in found if one["type"] == "extra_forbidden"]
    if kind == "extra_forbidden" and unknown:
        names = ", ".join(repr(cut(name)) for name in unknown[:10])
        verb = "was" if len(unknown) == 1 else "were"
        return f"Additional properties are not allowed ({names} {verb} unexpected)"
    value = first["input"]
    text = first["msg"]
    if kind in _TYPES:
        text = f"{shown(value)} is not of type '{_TYPES[kind]}'"
    if not place:
        return text
    field = ".".join(cut(str(part)) for part in place)
    if "password" in field or "token" in field:
        return f"Invalid input for field '{field}'.Value: '***'. The value is not acceptable."
    sent = cut(value) if isinstance(value, str) else shown(value)
    if str(place[0]) in from_query:
        return f"Invalid input for query parameters '{field}'. Value: '{sent}'. {text}"
    return f"Invalid input for field '{field}'.Value: '{sent}'. {text}"
