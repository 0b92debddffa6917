"""A resize whose node did not answer, or whose process died: engine and claim become what the record says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.support.simulated_node import SimulatedCloud, simulated_cloud
from zun.control import containers_interrupted
from zun.control.container_exclusive import PREFIX
from zun.domain.errors import HostUnreachable
from zun.store import leases


async def left(cloud: SimulatedCloud) -> list[str]:
    control = cloud.api.control
    async with control.db.read() as connection:
        later = control.clock.now() + timedelta(hours=1)
        return list(await leases.ended(connection, PREFIX, later, 10))


def limits(cloud: SimulatedCloud, uuid: str) -> int | None:
    """MiB of memory, in the engine."""
    return cloud.runtime.limits[uuid][1]


async def test_done_by_a_node_whose_answer_was_lost(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        uuid = await cloud.create()
        await cloud.wait(uuid, "Running")
        before, call = limits(cloud, uuid), cloud.api.control.bus.call
        _lose_answers(cloud, call)
        answer = await cloud.http.patch(f"/v1/containers/{uuid}", json={"memory": 64})
        assert answer.status_code == 503, answer.text
        assert limits(cloud, uuid) == 64
        assert await left(cloud) == [f"{PREFIX}{uuid}"]
        assert await containers_interrupted.settle(cloud.api.control, "reaper") == 0, "it does not answer yet"
        cloud.api.control.bus.call = call  # type: ignore[method-assign]
        assert await containers_interrupted.settle(cloud.api.control, "reaper") == 1
        assert limits(cloud, uuid) == before
        assert await left(cloud) == []
        await cloud.truth()


def _lose_answers(cloud: SimulatedCloud, call: Callable[..., Awaitable[Any]]) -> None:
    async def lost(host: str, method: str, params: Any, deadline: float) -> Any:
        await call(host, method, params, deadline)
        raise HostUnreachable("no answer")

    cloud.api.control.bus.call = lost  # type: ignore[method-assign]


async def test_a_container_that_is_gone_by_then(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        control, gone = cloud.api.control, f"{PREFIX}00000000-0000-4000-8000-000000000000"
        async with control.db.write() as connection:
            await leases.acquire(connection, gone, "dead", control.clock.now(), timedelta(seconds=-1))
        assert await containers_interrupted.settle(control, "reaper") == 1
        assert await left(cloud) == []
