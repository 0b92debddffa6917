"""Calls of the Placement API: expected refusals are answers, everything else is PlacementUnavailable."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection
from typing import Any

from zun.domain.errors import PlacementUnavailable, ServiceUnavailable
from zun.openstack.client import Answer, Refused, ServiceClient

CONCURRENT = "placement.concurrent_update"
IN_USE = "placement.inventory.inuse"
ATTEMPTS = 12
"""Tries of a write that others' writes collide with."""


class Raced(Exception):
    """Somebody else wrote in between: read again, try again."""


class Calls:
    """One Placement service; names that it has to know are made when first needed."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client
        self._made: set[str] = set()

    async def ask(
        self, method: str, path: str, *, json: Any = None, params: Any = None, expect: Collection[int] = ()
    ) -> Answer:
        """The answer; refusals with a status in ``expect`` too. Raises PlacementUnavailable."""
        try:
            return await self._client.request(method, path, json=json, params=params)
        except ServiceUnavailable as error:
            raise PlacementUnavailable(error.message) from error
        except Refused as refusal:
            if refusal.status in expect:
                return Answer(refusal.status, {}, refusal.body)
            raise PlacementUnavailable(
                f"Placement refused {method} {path}: {one_line(refusal.message)} ({refusal.status})"
            ) from refusal

    async def make_traits(self, names: Collection[str]) -> None:
        """Custom traits exist after it. Raises PlacementUnavailable."""
        await self._make("/traits/", names)

    async def make_classes(self, names: Collection[str]) -> None:
        """Custom resource classes exist after it. Raises PlacementUnavailable."""
        await self._make("/resource_classes/", names)

    def forget(self) -> None:
        """What was made may be gone."""
        self._made.clear()

    async def _make(self, prefix: str, names: Collection[str]) -> None:
        for name in sorted(names):
            if name.startswith("CUSTOM_") and prefix + name not in self._made:
                await self.ask("PUT", prefix + name)
                self._made.add(prefix + name)


def code(answer: Answer) -> str:
    """The machine-readable reason of a refusal, empty if there is none."""
    errors = answer.body.get("errors") if isinstance(answer.body, dict) else None
    return str(errors[0].get("code", "")) if errors else ""


def text(answer: Answer) -> str:
    """The service's own words."""
    errors = answer.body.get("errors") if isinstance(answer.body, dict) else None
    return one_line(str(errors[0].get("detail", ""))) if errors else f"HTTP {answer.status}"


def one_line(words: str) -> str:
    """Placement wraps what it says in blank lines, after a general sentence."""
    return " ".join((words.strip().split("\n\n", 1)[-1]).split())


async def pause(attempt: int) -> None:
    """Before the next try: short, growing, at random, so that writers part."""
    await asyncio.sleep(random.uniform(0, min(0.02 * 2**attempt, 1.0)))  # noqa: S311
