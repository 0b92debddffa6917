"""JSON as no library writes it: repeated members, numbers that are none, texts that are no Unicode."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Literal(bytes):
    """A value as it is to stand in the text."""


class Again(NamedTuple):
    """The key of a member whose name the object has already."""

    name: str | bytes
    turn: int


def written(tree: Any) -> bytes:
    """The text of ``tree``; keys are texts, ``Again`` or ``Literal``."""
    if isinstance(tree, Literal):
        return bytes(tree)
    if isinstance(tree, dict):
        return b"{" + b", ".join(_key(key) + b": " + written(value) for key, value in tree.items()) + b"}"
    if isinstance(tree, list):
        return b"[" + b", ".join(map(written, tree)) + b"]"
    return json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _key(key: Any) -> bytes:
    name = key.name if isinstance(key, Again) else key
    return written(name if isinstance(name, Literal) else str(name))
