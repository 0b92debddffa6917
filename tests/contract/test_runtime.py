"""The runtime port's contract, on every runtime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import uuid4

import pytest

from tests.support.runtimes import Bench, DockerBench, SimulatedBench
from tests.support.wait import eventually
from zun.domain.errors import (
    EngineConflict,
    EngineError,
    EngineNotFound,
    ImageFailed,
)
from zun.domain.observed import Observed
from zun.runtime.base import Event, Runtime
from zun.runtime.fingerprint import spec_hash


@pytest.fixture(params=[pytest.param("docker", marks=pytest.mark.engine), "simulated"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    made: Bench
    if request.param == "docker":
        made = DockerBench(request.getfixturevalue("busybox"), request.getfixturevalue("engine"))
    else:
        made = SimulatedBench("busybox:latest")
    try:
        await made.runtime.connect()
        yield made
    finally:
        await made.close()


async def seen(bench: Bench, uuid: str) -> Observed:
    found = await bench.runtime.inspect(uuid)
    assert found is not None
    return found


async def state(bench: Bench, uuid: str) -> str:
    return (await seen(bench, uuid)).state


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

    await eventually(cast("Callable[[], bool]", back), 15, "the engine restarts the container")


async def test_execute_gives_output_and_exit_code(bench: Bench) -> None:
    uuid = await bench.running()
    result = await bench.runtime.execute(uuid, ["echo", "%d %s {}", "two"], 10)
    assert (result.output, result.exit_code) == ("%d %s {} two\n", 0)
    assert (await bench.runtime.execute(uuid, ["sh", "-c", "exit 3"], 10)).exit_code == 3
    missing = await bench.runtime.execute(uuid, ["no-such-program"], 10)
    assert missing.exit_code in (126, 127)
    assert "not found" in missing.output


async def test_execute_beyond_its_limit_is_a_conflict(bench: Bench) -> None:
    uuid = await bench.running()
    begun = asyncio.get_running_loop().time()
    with pytest.raises(EngineConflict, match=r"0\.3 seconds"):
        await bench.runtime.execute(uuid, ["sleep", "600"], 0.3)
    assert asyncio.get_running_loop().time() - begun < 5


@pytest.mark.parametrize("verb", ["execute", "top", "stats", "resize"])
async def test_looking_inside_needs_a_running_container(bench: Bench, verb: str) -> None:
    uuid = await bench.created()
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "execute": lambda: bench.runtime.execute(uuid, ["true"], 5),
        "top": lambda: bench.runtime.top(uuid, None),
        "stats": lambda: bench.runtime.stats(uuid),
        "resize": lambda: bench.runtime.resize(uuid, height=20, width=80),
    }
    with pytest.raises(EngineConflict, match="not running"):
        await calls[verb]()


async def test_top_shows_the_processes(bench: Bench) -> None:
    uuid = await bench.running()
    found = await bench.runtime.top(uuid, None)
    assert "PID" in found["Titles"]
    assert any("sleep 3600" in " ".join(row) for row in found["Processes"])
    with pytest.raises(EngineError, match="ps: error"):
        await bench.runtime.top(uuid, "%s%d")


async def test_stats_are_one_sample(bench: Bench) -> None:
    uuid = await bench.running(memory_mib=64)
    found = await bench.runtime.stats(uuid)
    assert found.memory_limit_mib == 64
    assert 0 <= found.memory_usage_mib <= 64
    assert found.cpu_percent >= 0


async def test_resize_of_a_terminal(bench: Bench) -> None:
    uuid = await bench.running(tty=True, stdin=True)
    await bench.runtime.resize(uuid, height=30, width=100)
    assert await state(bench, uuid) == "running"


async def test_update_changes_the_limits(bench: Bench) -> None:
    uuid = await bench.running(memory_mib=64, cpu_millicores=200)
    await bench.runtime.update(uuid, cpu_millicores=None, memory_mib=128, swap_mib=0)
    assert (await bench.runtime.stats(uuid)).memory_limit_mib == 128
    await bench.runtime.update(uuid, cpu_millicores=500, memory_mib=32, swap_mib=0)
    assert (await bench.runtime.stats(uuid)).memory_limit_mib == 32


async def test_events_tell_what_happens_from_the_call_on(bench: Bench) -> None:
    before = await bench.created()
    await bench.runtime.remove(before, force=True)
    stream = bench.runtime.events()
    uuid = await bench.running()
    await bench.crash(uuid)
    await bench.reaches(uuid, "exited")
    await bench.runtime.remove(uuid, force=True)
    told: list[Event] = []
    async with asyncio.timeout(10):
        async for event in stream:
            if event.owner == bench.owner and event.uuid != before:
                told.append(event)
            if event.uuid == uuid and event.action == "destroy":
                break
    assert {event.uuid for event in told} == {uuid}
    actions = [event.action for event in told]
    assert [word for word in actions if word in ("create", "start", "die", "destroy")] == [
        "create",
        "start",
        "die",
        "destroy",
    ]


async def test_networks_are_made_once_and_removed_when_empty(bench: Bench) -> None:
    network = bench.network()
    await asyncio.gather(*(bench.runtime.ensure_network(network) for _ in range(5)))
    assert await bench.runtime.list_networks(bench.prefix) == [network.name]
    uuid = await bench.created(attachments=[bench.attachment(network)])
    with pytest.raises(EngineConflict):
        await bench.runtime.remove_network(network.name)
    await bench.runtime.remove(uuid, force=True)
    await bench.runtime.remove_network(network.name)
    await bench.runtime.remove_network(network.name)
    assert await bench.runtime.list_networks(bench.prefix) == []


async def test_network_of_the_name_with_another_subnet_is_a_conflict(bench: Bench) -> None:
    network = bench.network()
    await bench.runtime.ensure_network(network)
    with pytest.raises(EngineConflict, match=network.name):
        await bench.runtime.ensure_network(replace(bench.network(), name=network.name))


async def test_create_makes_its_networks(bench: Bench) -> None:
    network, other = bench.network(), bench.network()
    await bench.running(attachments=[bench.attachment(network), bench.attachment(other)])
    assert set(await bench.runtime.list_networks(bench.prefix)) == {network.name, other.name}


async def test_images_are_found_and_missed(bench: Bench) -> None:
    found = await bench.runtime.image(bench.image)
    assert found is not None
    assert found.size > 0
    assert await bench.runtime.image("zun-test/absent:never") is None
    await bench.runtime.remove_image("zun-test/absent:never")


async def test_pull_of_no_reference_is_no_retry(bench: Bench) -> None:
    with pytest.raises(ImageFailed, match="Image UPPER/bad::: is not a valid reference") as caught:
        await bench.runtime.pull("UPPER/bad:::", None, lambda state: None)
    assert not caught.value.retryable
