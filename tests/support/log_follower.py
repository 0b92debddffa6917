"""Somebody who follows a log: at the node's side, piece by piece, or as a client of the API that comes again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import httpx

from tests.support.product import Product
from tests.support.sse import Sent, listen
from tests.support.wait import eventually, wait_until
from zun.compute.log_pieces import LogPieces
from zun.domain.operation import CAPSULE


class NodeFollower:
    """Asks a node's handler for pieces, as the API does, in a task of its own; ``restart`` forgets all but the
    place."""

    def __init__(self, uuid: str, *, runtime: Any = None, pods: Any = None) -> None:
        self.lines: list[str] = []
        self.lost = 0
        self.over: str | None = None
        self._node: Any = SimpleNamespace(runtime=runtime, pods=pods)
        self._asked: dict[str, Any] = {"uuid": uuid, **({CAPSULE: True} if pods is not None else {})}
        self._place: str | None = None
        self._behind: int | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        pieces = LogPieces(self._node)
        while self.over is None:
            params = {"streams": ["stdout", "stderr"], "after": self._place, "tail": None, "since": None}
            piece = await pieces.log_piece({**self._asked, **params, "behind": self._behind, "wait": 20})
            self._place, self._behind, self.over = piece["place"], piece["behind"], piece["over"]
            self.lost += piece["lost"]
            self.lines += [line for _, _, line, _, _ in piece["records"]]

    async def stop(self) -> None:
        assert self._task is not None
        if self._task.done():
            await self._task
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def restart(self) -> None:
        await self.stop()
        self._behind = None
        self.begin()

    async def has(self, count: int) -> None:
        """Waits until it has so many lines."""

        def there() -> bool:
            assert self._task is not None
            if self._task.done():
                self._task.result()
            return len(self.lines) >= count

        await eventually(there, 60, f"{count} lines are there; {self.lines[-3:]}")


class ClientFollower:
    """Reads one stream after the other and goes on with the last id, as browsers do."""

    def __init__(self, http: Callable[[], httpx.Client], uuid: str, query: Mapping[str, Any] | None = None) -> None:
        self.events: list[Sent] = []
        self._http = http
        self._path = f"/v1/containers/{uuid}/logs/stream"
        self._query = dict(query or {})

    @property
    def lines(self) -> list[str]:
        return [one.data["line"] for one in self.events if one.name == "log"]

    @property
    def last(self) -> str | None:
        return next((one.ident for one in reversed(self.events) if one.name == "log"), None)

    def read(self, enough: Callable[[], bool] = lambda: False) -> None:
        """One stream, until ``enough``, its end or that of the connection."""
        try:
            with listen(self._http(), self._path, self.last, **self._query) as (head, events):
                assert head.status_code == 200, head.read()
                for one in events:
                    self.events.append(one)
                    if enough():
                        return
        except httpx.TransportError:
            return

    def read_to_the_end(self) -> None:
        """Comes again until the container has stopped; an API that is away is waited for."""

        def over() -> bool:
            self.read()
            return bool(self.events) and self.events[-1].name == "end" and self.events[-1].data["reason"] == "stopped"

        wait_until(over, 240, f"the log has ended; {self.events[-3:]}")


def counts(to: int, pause: str = "0.01") -> str:
    """A script that writes numbers, on both streams in turn, and ends."""
    two = "echo out $i; i=$((i+1)); echo err $i >&2; i=$((i+1))"
    return f"i=0; while [ $i -lt {to} ]; do {two}; sleep {pause}; done; exit 3"


COUNTS_ON = (
    "i=0; until [ -e /stop ]; do echo out $i; i=$((i+1)); echo err $i >&2; i=$((i+1)); sleep 0.02; done; echo out $i"
)
"""The same without an end, until ``told_to_stop``."""


def told_to_stop(product: Product, uuid: str) -> None:
    """Ends a container with ``COUNTS_ON``."""

    def done() -> bool:
        return product.http().post(f"/v1/containers/{uuid}/execute?command=touch /stop").status_code in (200, 409)

    wait_until(done, 60, "it is told to stop")


def all_counted(product: Product, uuid: str, lines: list[str]) -> bool:
    """Is each number there once, up to the last one of the log?"""
    last = product.http().get(f"/v1/containers/{uuid}/logs?tail=1").json().split()
    return by_number(lines) == counted(int(last[1]) + 1)


def counted(to: int) -> list[str]:
    return [f"{'err' if number % 2 else 'out'} {number}" for number in range(to)]


def made(product: Product, image: str, script: str, **more: Any) -> str:
    body = {"image": image, "image_pull_policy": "ifnotpresent", "command": ["sh", "-c", script], "memory": "64"}
    answer = product.http().post("/v1/containers?run=true", json={**body, **more})
    assert answer.status_code == 202, answer.text
    uuid = str(answer.json()["uuid"])
    product.wait_status(f"/v1/containers/{uuid}", "Running", "Stopped")
    return uuid


def by_number(lines: list[str]) -> list[str]:
    """The engine writes down the two streams by two tasks: their order is not the program's."""
    return sorted(lines, key=lambda line: int(line.split()[1]))
