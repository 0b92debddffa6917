"""Server-sent events as a client reads them, from a real connection."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True)
class Sent:
    """One event; ``ident`` is the last id that came, with it or before it."""

    name: str
    data: Any
    ident: str


def parse(lines: Iterator[str]) -> Iterator[Sent]:
    """By the rules of the HTML standard, as far as we send; the keep-alives are passed over."""
    ident, name, data = "", "message", list[str]()
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield Sent(name, json.loads("\n".join(data)), ident)
            name, data = "message", []
        elif field == "id":
            ident = value
        elif field == "event":
            name = value
        elif field == "data":
            data.append(value)


@contextlib.contextmanager
def listen(
    client: httpx.Client, path: str, after: str | None = None, **query: Any
) -> Iterator[tuple[httpx.Response, Iterator[Sent]]]:
    """The answer's head and its events; leaving closes the connection."""
    headers = {"Accept": "text/event-stream"} | ({} if after is None else {"Last-Event-ID": after})
    with client.stream("GET", path, params=query, headers=headers) as answer:
        yield answer, parse(answer.iter_lines())
