"""Paths to rows of the route table: a tree of segments, so that names keep every dot they have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

from zun.api.call import Version
from zun.api.table import Route

_UUID_JSON = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\.json")


@dataclass(slots=True)
class _Node:
    literals: dict[str, _Node] = field(default_factory=dict)
    parameter: _Node | None = None
    wide: _Node | None = None
    """Behind a parameter of one or more segments."""
    methods: dict[str, list[Route]] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    """Names of the path parameters on the way here, by method."""


@dataclass(frozen=True, slots=True)
class Match:
    """A path that exists: what it can do, and the values of its parameters in order."""

    methods: Mapping[str, Sequence[Route]]
    names: Mapping[str, Sequence[str]]
    values: Sequence[str]

    def parameters(self, method: str) -> dict[str, str]:
        return dict(zip(self.names[method], self.values, strict=True))


def segments(raw_path: bytes) -> list[str] | None:
    """Path segments, decoded once; empty ones are dropped (doubled and trailing slashes). None: not text."""
    if b"%" not in raw_path:
        try:
            return [part for part in raw_path.decode("utf-8").split("/") if part]
        except UnicodeDecodeError:
            return None
    found = []
    for part in raw_path.split(b"/"):
        if part:
            try:
                text = unquote_to_bytes(part).decode("utf-8")
            except UnicodeDecodeError:
                return None
            if "\x00" in text:
                return None
            found.append(text)
    return found


class Router:
    """Built once from the table."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for route in routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        node, names = self._root, []
        for part in route.path.strip("/").split("/"):
            if part.startswith("{"):
                names.append(part[1:-1])
                if part[1:-1] == route.wide:
                    node.wide = node.wide or _Node()
                    node = node.wide
                    continue
                if node.parameter is None:
                    node.parameter = _Node()
                node = node.parameter
            else:
                node = node.literals.setdefault(part, _Node())
        rows = node.methods.setdefault(route.method, [])
        for other in rows:
            if other.min_version <= route.max_version and route.min_version <= other.max_version:
                raise ValueError(f"two rows answer {route.method} {route.path} in the same version")
        rows.append(route)
        node.names[route.method] = names

    def find(self, parts: Sequence[str]) -> Match | None:
        """Literal segments win over parameters; ``.json`` is taken off a last segment that is a literal or a uuid.
        Names keep it."""
        values: list[str] = []
        node = _walk(self._root, parts, 0, values)
        return Match(node.methods, node.names, values) if node else None


def _walk(node: _Node, parts: Sequence[str], index: int, values: list[str]) -> _Node | None:
    if index == len(parts):
        return node if node.methods else None
    part = parts[index]
    below = node.literals.get(part)
    if below is None and index == len(parts) - 1 and part.endswith(".json"):
        below = node.literals.get(part[:-5])
    if below is not None:
        found = _walk(below, parts, index + 1, values)
        if found:
            return found
    if node.parameter is not None:
        values.append(part[:-5] if index == len(parts) - 1 and _UUID_JSON.fullmatch(part) else part)
        found = _walk(node.parameter, parts, index + 1, values)
        if found:
            return found
        values.pop()
    if node.wide is not None:
        for end in range(len(parts), index, -1):
            values.append("/".join(parts[index:end]))
            found = _walk(node.wide, parts, end, values)
            if found:
                return found
            values.pop()
    return None


def choose(rows: Sequence[Route], version: Version) -> Route | None:
    """The row that serves ``version``."""
    for row in rows:
        if row.min_version <= version <= row.max_version:
            return row
    return None
