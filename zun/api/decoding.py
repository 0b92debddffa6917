"""Bodies and queries into plain values. Whatever a caller sends ends here as a named 4xx, never later as a 5xx."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import orjson

from zun.api.text import shown
from zun.domain.errors import RequestTimeout, RequestTooLarge, SchemaValidationError, UnsupportedMediaType

MAX_DEPTH = 64
"""Nesting taken in bodies: below what the JSON writer can write again."""
MAX_PARAMETERS = 1000
Receive = Callable[[], Awaitable[Mapping[str, Any]]]


class ClientDisconnected(Exception):
    """The client went away while it was sending; nobody is left to answer."""


async def read_body(receive: Receive, declared: str | None, largest: int, seconds: float = 60.0) -> bytes:
    """The whole body, at most ``largest`` bytes and within ``seconds``.

    Raises RequestTooLarge (413) or RequestTimeout (408) without reading on, ClientDisconnected.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _read(receive, declared, largest)
    except TimeoutError:
        raise RequestTimeout(f"The request body did not arrive within {seconds:g} seconds.") from None


async def _read(receive: Receive, declared: str | None, largest: int) -> bytes:
    too_large = RequestTooLarge(f"The request body is larger than {largest} bytes.")
    if (
        declared is not None
        and declared.isascii()
        and declared.isdigit()
        and (len(declared) > 15 or int(declared) > largest)
    ):
        raise too_large
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > largest:
            raise too_large
        if part:
            parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def media_type(header: str | None) -> str:
    """The type without parameters, lower case."""
    return (header or "").partition(";")[0].strip().lower()


def decode_body(
    raw: bytes, content_type: str | None, *, json_only: bool, strict: bool, any_text: bool = False
) -> dict[str, Any]:
    """Members of the body; {} for none.

    ``json_only``: a JSON object has to be there, as application/json (UnsupportedMediaType else).
    ``strict``: what claims to be JSON has to be an object. Otherwise unusable bodies count as none, as clients
    send octet-stream with DELETE and ``null`` with GET. ``any_text``: texts may have
    NUL characters. Raises SchemaValidationError naming the fault.
    """
    kind = media_type(content_type)
    if json_only and kind != "application/json":
        raise UnsupportedMediaType(
            f"Content-Type {shown(kind)} is not supported here; application/json is."
            if kind
            else "Content-Type application/json is required."
        )
    if not raw.strip():
        if json_only:
            raise SchemaValidationError("The request body is empty; a JSON object is required.")
        return {}
    if kind == "application/x-www-form-urlencoded":
        return {name: values if len(values) > 1 else values[0] for name, values in decode_form(raw, "body").items()}
    strict = strict and (kind in ("", "application/json") or kind.endswith("+json"))
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        if not strict:
            return {}
        raise SchemaValidationError(f"The request body is not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        if not strict or (value is None and not json_only):
            return {}
        raise SchemaValidationError(f"The request body has to be a JSON object, not {_json_name(value)}.")
    try:
        check_tree(value, raw, any_text=any_text)
    except SchemaValidationError:
        if strict:
            raise
        return {}
    return value


def decode_query(raw: bytes) -> dict[str, list[str]]:
    """Every parameter with all its values; raises SchemaValidationError."""
    return decode_form(raw, "query") if raw else {}


def decode_form(raw: bytes, where: str) -> dict[str, list[str]]:
    """URL-encoded pairs of strict UTF-8 without NUL characters."""
    found: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(raw.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except UnicodeDecodeError:
        raise SchemaValidationError(f"The {where} is not valid UTF-8.") from None
    except ValueError:
        raise SchemaValidationError(f"The {where} has more than {MAX_PARAMETERS} parameters.") from None
    for name, value in pairs:
        if "\x00" in name or "\x00" in value:
            raise SchemaValidationError(f"The {where} parameter {shown(name)} contains a NUL character.")
        found.setdefault(name, []).append(value)
    return found


def merge(query: Mapping[str, list[str]], body: Mapping[str, Any]) -> dict[str, Any]:
    """One argument set of both; the body wins, a repeated parameter stays a list (and fails as a scalar)."""
    merged: dict[str, Any] = {name: values[0] if len(values) == 1 else values for name, values in query.items()}
    merged.update(body)
    return merged


def _json_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, list):
        return "an array"
    return "a string" if isinstance(value, str) else "a number"


def check_tree(value: Any, raw: bytes, *, any_text: bool) -> None:
    """Refuse nesting deeper than MAX_DEPTH and NUL characters; walks only when the text hints at one."""
    if raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH and (any_text or b"\\u0000" not in raw):
        return
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                if "\x00" in item and not any_text:
                    raise SchemaValidationError("The request body contains a NUL character.")
            elif isinstance(item, dict):
                below.extend(item.keys())
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if not below:
            return
        level = below
    raise SchemaValidationError(f"The request body is nested deeper than {MAX_DEPTH} levels.")
