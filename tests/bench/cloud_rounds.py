"""What a tenant does, timed: create until answered and until Running, delete until gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import cast

import httpx

from tests.support.wait import eventually

POLL = 0.03
"""Seconds between two looks at one container. Each look costs the API some milliseconds of the machine's CPUs, which
the same calls by hand have for themselves."""
POLL_MANY = 0.25
LONGEST = 300.0
READY = "ready"
COMMAND = ["sh", "-c", f"trap 'exit 0' TERM; echo {READY}; while :; do sleep 0.1; done"]
"""Ends on TERM, as a well-behaved service does, from when it says that it is ready: before, TERM would be lost on the
first process of a container."""


class Rounds:
    """One tenant's client."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def create(self) -> tuple[float, float, str]:
        """(seconds to 202, seconds to Running, uuid)."""
        begin = time.perf_counter()
        uuid = await self._post()
        answered = time.perf_counter() - begin
        await self._all_running({uuid}, begin, POLL)
        return answered, time.perf_counter() - begin, uuid

    async def create_many(self, count: int) -> tuple[float, list[str]]:
        """(seconds until all of them run, uuids)."""
        begin = time.perf_counter()
        uuids = await asyncio.gather(*(self._post() for _ in range(count)))
        await self._all_running(set(uuids), begin, POLL_MANY)
        return time.perf_counter() - begin, list(uuids)

    async def delete_one(self) -> float:
        """Seconds from DELETE (with stop) of a container that is at work to 404."""
        _, _, uuid = await self.create()

        async def ready() -> bool:
            return READY in (await self._client.get(f"/v1/containers/{uuid}/logs")).text

        await eventually(cast("Callable[[], bool]", ready), LONGEST, f"{uuid} says that it is ready")
        begin = time.perf_counter()
        await self.remove([uuid], stop="true")
        return time.perf_counter() - begin

    async def remove(self, uuids: Sequence[str], **how: str) -> None:
        """Delete and wait until all are gone."""
        for uuid in uuids:
            answer = await self._client.delete(f"/v1/containers/{uuid}", params=how or {"stop": "true"})
            assert answer.status_code == 204, answer.text
        until = time.monotonic() + LONGEST
        for uuid in uuids:
            while (await self._client.get(f"/v1/containers/{uuid}")).status_code != 404:
                assert time.monotonic() < until, f"{uuid} is not gone after {LONGEST} s"
                await asyncio.sleep(POLL if len(uuids) == 1 else POLL_MANY)

    async def _post(self) -> str:
        body = {"image": "busybox", "command": COMMAND, "cpu": 0.1, "memory": 16}
        answer = await self._client.post("/v1/containers", params={"run": "true"}, json=body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["uuid"])

    async def _all_running(self, waiting: set[str], begin: float, poll: float) -> None:
        while waiting:
            rows = (await self._client.get("/v1/containers")).json()["containers"]
            failed = [row["status_reason"] for row in rows if row["status"] == "Error"]
            assert not failed, failed
            waiting -= {row["uuid"] for row in rows if row["status"] == "Running"}
            assert time.perf_counter() - begin < LONGEST, f"not running after {LONGEST} s: {waiting}"
            await asyncio.sleep(poll)
