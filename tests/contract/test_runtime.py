"""The runtime port's contract, on every runtime: the life of a container."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import uuid4

import pytest

from tests.support.runtimes import Bench, seen, state
from tests.support.wait import eventually
from zun.domain.errors import (
    EngineConflict,
    EngineNotFound,
)
from zun.runtime.base import Runtime
from zun.runtime.fingerprint import spec_hash


async def test_it_is_a_runtime(bench: Bench) -> None:
    runtime: Runtime = bench.runtime
    assert runtime.name in ("docker", "simulated")
    info = await runtime.info()
    assert info.cpus > 0
    assert info.memory_mib > 0
    assert info.default_runtime in info.runtimes


async def test_create_makes_a_container_that_does_not_run(bench: Bench) -> None:
    spec = bench.spec(environment={"A": "b=c"}, hostname="web", workdir="/tmp")
    engine_id = await bench.runtime.create(spec)
    found = await seen(bench, spec.uuid)
    assert (found.engine_id, found.state, found.owner) == (engine_id, "created", bench.owner)
    assert (found.started_at, found.finished_at) == (None, None)
    assert found.spec_hash == spec_hash(spec)
    assert (found.hostname, found.workdir, found.environment["A"]) == ("web", "/tmp", "b=c")
    assert list(found.command) == list(spec.command or ())


async def test_create_twice_is_one_container(bench: Bench) -> None:
    spec = bench.spec()
    assert await bench.runtime.create(spec) == await bench.runtime.create(spec)


async def test_create_with_another_wish_replaces(bench: Bench) -> None:
    spec = bench.spec()
    old = await bench.runtime.create(spec)
    await bench.runtime.start(spec.uuid)
    new = await bench.runtime.create(replace(spec, environment={"NEW": "1"}))
    assert new != old
    found = await seen(bench, spec.uuid)
    assert (found.state, found.environment["NEW"]) == ("created", "1")


async def test_create_never_touches_another_owners_container(bench: Bench) -> None:
    spec = bench.spec()
    engine_id = await bench.runtime.create(spec)
    with pytest.raises(EngineConflict, match=bench.owner):
        await bench.runtime.create(replace(spec, owner="other/host", environment={"X": "1"}))
    assert (await seen(bench, spec.uuid)).engine_id == engine_id


async def test_create_without_the_image_is_not_found(bench: Bench) -> None:
    with pytest.raises(EngineNotFound, match="No such image"):
        await bench.runtime.create(bench.spec(image="zun-test/absent:never"))


async def test_start_is_idempotent_and_seen(bench: Bench) -> None:
    uuid = await bench.running()
    await bench.runtime.start(uuid)
    found = await seen(bench, uuid)
    assert found.state == "running"
    assert found.started_at is not None
    assert abs(datetime.now(UTC).replace(tzinfo=None) - found.started_at) < timedelta(minutes=1)


async def test_stop_is_idempotent(bench: Bench) -> None:
    uuid = await bench.running()
    await bench.runtime.stop(uuid, 0)
    await bench.runtime.stop(uuid, 0)
    found = await seen(bench, uuid)
    assert (found.state, found.exit_code) == ("exited", 137)
    assert found.finished_at is not None


async def test_reboot_starts_anew_from_running_and_stopped(bench: Bench) -> None:
    uuid = await bench.running()
    before = (await seen(bench, uuid)).started_at
    await bench.runtime.reboot(uuid, 0)
    assert (await seen(bench, uuid)).started_at != before
    await bench.runtime.stop(uuid, 0)
    await bench.runtime.reboot(uuid, 0)
    assert await state(bench, uuid) == "running"


async def test_kill_ends_a_running_container_only(bench: Bench) -> None:
    uuid = await bench.running()
    await bench.runtime.kill(uuid, None)
    await bench.reaches(uuid, "exited")
    with pytest.raises(EngineConflict, match="not running"):
        await bench.runtime.kill(uuid, "SIGTERM")


async def test_harmless_signal_does_not_end(bench: Bench) -> None:
    uuid = await bench.running()
    await bench.runtime.kill(uuid, "SIGURG")
    assert await state(bench, uuid) == "running"


async def test_pause_and_unpause_are_idempotent(bench: Bench) -> None:
    uuid = await bench.running()
    await bench.runtime.pause(uuid)
    await bench.runtime.pause(uuid)
    assert await state(bench, uuid) == "paused"
    await bench.runtime.unpause(uuid)
    await bench.runtime.unpause(uuid)
    assert await state(bench, uuid) == "running"


async def test_pause_needs_a_running_container(bench: Bench) -> None:
    uuid = await bench.created()
    with pytest.raises(EngineConflict, match="not running"):
        await bench.runtime.pause(uuid)


async def test_remove_needs_force_while_it_runs(bench: Bench) -> None:
    uuid = await bench.running()
    with pytest.raises(EngineConflict):
        await bench.runtime.remove(uuid, force=False)
    await bench.runtime.remove(uuid, force=True)
    await bench.runtime.remove(uuid, force=True)
    assert await bench.runtime.inspect(uuid) is None


async def test_remove_takes_a_paused_container(bench: Bench) -> None:
    uuid = await bench.running()
    await bench.runtime.pause(uuid)
    await bench.runtime.remove(uuid, force=True)
    assert await bench.runtime.inspect(uuid) is None


async def test_removals_at_once_all_succeed(bench: Bench) -> None:
    uuid = await bench.running()
    await asyncio.gather(*(bench.runtime.remove(uuid, force=True) for _ in range(5)))
    assert await bench.runtime.inspect(uuid) is None


@pytest.mark.parametrize("verb", ["start", "stop", "reboot", "kill", "pause", "unpause", "logs", "execute", "stats"])
async def test_what_is_not_there_is_not_found(bench: Bench, verb: str) -> None:
    runtime, uuid = bench.runtime, str(uuid4())
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "start": lambda: runtime.start(uuid),
        "stop": lambda: runtime.stop(uuid, None),
        "reboot": lambda: runtime.reboot(uuid, None),
        "kill": lambda: runtime.kill(uuid, None),
        "pause": lambda: runtime.pause(uuid),
        "unpause": lambda: runtime.unpause(uuid),
        "logs": lambda: runtime.logs(uuid, stdout=True, stderr=True, timestamps=False, tail=None, since=None),
        "execute": lambda: runtime.execute(uuid, ["true"], 5),
        "stats": lambda: runtime.stats(uuid),
    }
    with pytest.raises(EngineNotFound):
        await calls[verb]()
    assert await runtime.inspect(uuid) is None


async def test_list_has_all_states_with_owner_and_fingerprint(bench: Bench) -> None:
    idle, busy = await bench.created(), await bench.running()
    rows = {row.uuid: row for row in await bench.runtime.list() if row.owner == bench.owner}
    assert {uuid: row.state for uuid, row in rows.items()} == {idle: "created", busy: "running"}
    assert rows[busy].spec_hash == (await seen(bench, busy)).spec_hash


async def test_crash_and_vanishing_are_seen(bench: Bench) -> None:
    crashed, vanished = await bench.running(), await bench.running()
    await bench.crash(crashed)
    await bench.vanish(vanished)
    assert (await bench.reaches(crashed, "exited")).exit_code == 137
    assert await bench.runtime.inspect(vanished) is None
    with pytest.raises(EngineNotFound):
        await bench.runtime.start(vanished)


async def test_restart_policy_brings_a_crashed_container_back(bench: Bench) -> None:
    uuid = await bench.running(restart_name="always")
    before = (await seen(bench, uuid)).started_at
    await bench.crash(uuid)

    async def back() -> bool:
        found = await seen(bench, uuid)
        return found.state == "running" and found.started_at != before

    await eventually(cast("Callable[[], bool]", back), 60, "the engine restarts the container")
