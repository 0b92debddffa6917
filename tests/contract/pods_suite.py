"""What every engine for capsules has to do. Imported whole by the test module, which defines the fixture ``bench``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from tests.support.pods import PodsBench
from zun.domain.errors import EngineConflict, EngineNotFound, EngineUnreachable
from zun.runtime.base import Event
from zun.runtime.fingerprint import spec_hash
from zun.runtime.pods import Forgotten

LIMIT = 30.0
"""Longest wait for an event, seconds."""


async def heard(events: AsyncIterator[Event], uuid: str) -> Event:
    """The next event of ``uuid``."""
    async with asyncio.timeout(LIMIT):
        async for event in events:
            if event.uuid == uuid:
                return event
    raise AssertionError("the events ended")


# -- sandboxes ---------------------------------------------------------------------------------------


async def test_engine_tells_what_it_is(bench: PodsBench) -> None:
    info = await bench.pods.info()
    assert info.name
    assert info.version


async def test_sandbox_that_never_was_is_none_and_its_removal_success(bench: PodsBench) -> None:
    uuid = str(uuid4())
    assert await bench.pods.sandbox(uuid) is None
    await bench.pods.stop_sandbox(uuid)
    await bench.pods.remove_sandbox(uuid)


async def test_sandbox_is_ready_and_ours(bench: PodsBench) -> None:
    spec = bench.sandbox_spec()
    made = await bench.pods.run_sandbox(spec)
    assert (made.uuid, made.ready, made.owner, made.spec_hash) == (spec.uuid, True, bench.owner, spec_hash(spec))
    assert made.handler == ""
    assert await bench.pods.sandbox(spec.uuid) == made
    assert made.created_at is not None
    assert abs(made.created_at - datetime.now(UTC).replace(tzinfo=None)) < timedelta(minutes=1)
    listed = {one.uuid: one for one in await bench.pods.sandboxes()}
    assert listed[spec.uuid].sandbox_id == made.sandbox_id
    assert listed[spec.uuid].ready


async def test_sandbox_of_the_same_wish_is_made_once(bench: PodsBench) -> None:
    spec = bench.sandbox_spec()
    made = await bench.pods.run_sandbox(spec)
    assert (await bench.pods.run_sandbox(spec)).sandbox_id == made.sandbox_id


async def test_sandbox_of_another_wish_replaces_the_former(bench: PodsBench) -> None:
    spec = bench.sandbox_spec()
    former = await bench.pods.run_sandbox(spec)
    member = await bench.running(spec.uuid)
    made = await bench.pods.run_sandbox(replace(spec, hostname="another"))
    assert made.sandbox_id != former.sandbox_id
    assert [one.sandbox_id for one in await bench.pods.sandboxes() if one.uuid == spec.uuid] == [made.sandbox_id]
    assert await bench.pods.inspect(member) is None


async def test_sandbox_of_another_owner_is_not_touched(bench: PodsBench) -> None:
    spec = bench.sandbox_spec()
    made = await bench.pods.run_sandbox(spec)
    with pytest.raises(EngineConflict, match="belongs to"):
        await bench.pods.run_sandbox(replace(spec, owner="somebody/else"))
    assert (await bench.box(spec.uuid)).sandbox_id == made.sandbox_id


async def test_stopped_sandbox_ends_its_members_and_is_made_anew(bench: PodsBench) -> None:
    spec = bench.sandbox_spec()
    former = await bench.pods.run_sandbox(spec)
    member = await bench.running(spec.uuid)
    await bench.pods.stop_sandbox(spec.uuid)
    assert not (await bench.box(spec.uuid)).ready
    assert (await bench.reaches(member, "exited")).exit_code == 137
    await bench.pods.stop_sandbox(spec.uuid)
    made = await bench.pods.run_sandbox(spec)
    assert made.ready
    assert made.sandbox_id != former.sandbox_id


async def test_removed_sandbox_takes_its_members_with_it(bench: PodsBench) -> None:
    capsule = await bench.capsule()
    member = await bench.running(capsule)
    await bench.pods.remove_sandbox(capsule)
    assert await bench.pods.sandbox(capsule) is None
    assert await bench.pods.inspect(member) is None
    assert member not in {one.uuid for one in await bench.pods.list()}
    await bench.pods.remove_sandbox(capsule)


async def test_killed_sandbox_is_not_ready_and_is_made_anew(bench: PodsBench) -> None:
    spec = bench.sandbox_spec()
    former = await bench.pods.run_sandbox(spec)
    async with bench.listening() as events:
        await bench.pods.sandboxes()
        await bench.kill_sandbox(spec.uuid)
        event = await heard(events, spec.uuid)
    assert event.owner == bench.owner
    assert not (await bench.box(spec.uuid)).ready
    with pytest.raises(EngineNotFound):
        await bench.created(spec.uuid)
    assert (await bench.pods.run_sandbox(spec)).sandbox_id != former.sandbox_id


async def test_sandboxes_side_by_side(bench: PodsBench) -> None:
    capsules = await asyncio.gather(*(bench.capsule() for _ in range(5)))
    members = await asyncio.gather(*(bench.running(capsule) for capsule in capsules))
    states = {one.uuid: (one.state, one.capsule_uuid) for one in await bench.pods.list()}
    assert [states[member] for member in members] == [("running", capsule) for capsule in capsules]
    await asyncio.gather(*(bench.pods.remove_sandbox(capsule) for capsule in capsules))
    assert not {one.uuid for one in await bench.pods.sandboxes()} & set(capsules)


# -- members -----------------------------------------------------------------------------------------


async def test_member_needs_a_ready_sandbox(bench: PodsBench) -> None:
    with pytest.raises(EngineNotFound):
        await bench.created(str(uuid4()))
    capsule = await bench.capsule()
    await bench.pods.stop_sandbox(capsule)
    with pytest.raises(EngineNotFound):
        await bench.created(capsule)


async def test_member_is_made_once(bench: PodsBench) -> None:
    spec = bench.member_spec(await bench.capsule())
    engine_id = await bench.pods.create(spec)
    assert await bench.pods.create(spec) == engine_id
    found = await bench.seen(spec.uuid)
    assert (found.uuid, found.engine_id, found.state) == (spec.uuid, engine_id, "created")
    assert (found.owner, found.spec_hash) == (bench.owner, spec_hash(spec))
    assert (found.capsule_uuid, found.attempt) == (spec.capsule_uuid, 0)
    assert (found.started_at, found.finished_at, found.exit_code) == (None, None, None)
    listed = next(one for one in await bench.pods.list() if one.uuid == spec.uuid)
    assert (listed.engine_id, listed.state, listed.owner) == (engine_id, "created", bench.owner)
    assert (listed.capsule_uuid, listed.attempt, listed.spec_hash) == (spec.capsule_uuid, 0, spec_hash(spec))


async def test_member_runs(bench: PodsBench) -> None:
    member = await bench.created(await bench.capsule())
    await bench.pods.start(member)
    await bench.pods.start(member)
    found = await bench.seen(member)
    assert (found.state, found.exit_code, found.finished_at) == ("running", None, None)
    assert found.started_at is not None


@pytest.mark.parametrize("code", [0, 3])
async def test_member_that_ends_has_its_exit_code(bench: PodsBench, code: int) -> None:
    member = await bench.running(await bench.capsule(), "sh", "-c", f"exit {code}")
    found = await bench.reaches(member, "exited")
    assert found.exit_code == code
    assert found.finished_at is not None
    with pytest.raises(EngineConflict):
        await bench.pods.start(member)


async def test_next_attempt_replaces_the_former(bench: PodsBench) -> None:
    first = bench.member_spec(await bench.capsule(), "sh", "-c", "exit 1")
    await bench.pods.create(first)
    await bench.pods.start(first.uuid)
    former = await bench.reaches(first.uuid, "exited")
    second = replace(first, attempt=1)
    engine_id = await bench.pods.create(second)
    assert engine_id != former.engine_id
    rows = [one for one in await bench.pods.list() if one.uuid == first.uuid]
    assert [(one.engine_id, one.attempt, one.state) for one in rows] == [(engine_id, 1, "created")]
    found = await bench.seen(first.uuid)
    assert (found.attempt, found.spec_hash, found.exit_code) == (1, spec_hash(second), None)


async def test_member_of_another_owner_is_not_touched(bench: PodsBench) -> None:
    spec = bench.member_spec(await bench.capsule())
    engine_id = await bench.pods.create(spec)
    with pytest.raises(EngineConflict, match="belongs to"):
        await bench.pods.create(replace(spec, owner="somebody/else", attempt=1))
    assert (await bench.seen(spec.uuid)).engine_id == engine_id


async def test_member_that_never_was(bench: PodsBench) -> None:
    uuid = str(uuid4())
    assert await bench.pods.inspect(uuid) is None
    await bench.pods.remove(uuid, force=False)
    with pytest.raises(EngineNotFound):
        await bench.pods.start(uuid)
    with pytest.raises(EngineNotFound):
        await bench.pods.stop(uuid, 1)
    with pytest.raises(EngineNotFound):
        await bench.pods.execute(uuid, ["true"], 5)
    with pytest.raises(EngineNotFound):
        await bench.pods.stats(uuid)
    with pytest.raises(EngineNotFound):
        await bench.log(uuid)
    with pytest.raises(EngineNotFound):
        await bench.pods.update(uuid, cpu_millicores=100, memory_mib=None, swap_mib=0)


async def test_stopped_member_has_ended(bench: PodsBench) -> None:
    member = await bench.running(await bench.capsule())
    await bench.pods.stop(member, 0)
    assert (await bench.seen(member)).state == "exited"
    await bench.pods.stop(member, 0)


async def test_running_member_is_removed_by_force_only(bench: PodsBench) -> None:
    member = await bench.running(await bench.capsule())
    with pytest.raises(EngineConflict):
        await bench.pods.remove(member, force=False)
    assert (await bench.seen(member)).state == "running"
    await bench.pods.remove(member, force=True)
    assert await bench.pods.inspect(member) is None
    await bench.pods.remove(member, force=True)


async def test_ended_member_is_removed(bench: PodsBench) -> None:
    member = await bench.running(await bench.capsule(), "sh", "-c", "exit 0")
    await bench.reaches(member, "exited")
    await bench.pods.remove(member, force=False)
    assert await bench.pods.inspect(member) is None


async def test_member_takes_new_limits_while_it_runs(bench: PodsBench) -> None:
    capsule = await bench.capsule(cpu_millicores=500, memory_mib=64)
    member = await bench.running(capsule, cpu_millicores=500, memory_mib=64)
    await bench.pods.update(member, cpu_millicores=700, memory_mib=96, swap_mib=0)
    await bench.pods.update(member, cpu_millicores=200, memory_mib=48, swap_mib=0)
    await bench.pods.update(member, cpu_millicores=None, memory_mib=None, swap_mib=0)
    assert (await bench.seen(member)).state == "running"


# -- within members ----------------------------------------------------------------------------------


async def test_command_in_a_member(bench: PodsBench) -> None:
    member = await bench.running(await bench.capsule())
    done = await bench.pods.execute(member, ["echo", "hello"], 20)
    assert (done.output, done.exit_code) == ("hello\n", 0)
    assert (await bench.pods.execute(member, ["false"], 20)).exit_code == 1


async def test_command_that_takes_too_long_names_the_limit(bench: PodsBench) -> None:
    member = await bench.running(await bench.capsule())
    with pytest.raises(EngineConflict, match=r"longer than the limit of 0\.5 seconds"):
        await bench.pods.execute(member, ["sleep", "3600"], 0.5)
    assert (await bench.seen(member)).state == "running"


async def test_member_that_does_not_run_takes_no_command_and_has_no_use(bench: PodsBench) -> None:
    member = await bench.created(await bench.capsule())
    with pytest.raises(EngineConflict, match="not running"):
        await bench.pods.execute(member, ["true"], 5)
    with pytest.raises(EngineConflict, match="not running"):
        await bench.pods.stats(member)


async def test_use_of_a_member(bench: PodsBench) -> None:
    member = await bench.running(await bench.capsule(), memory_mib=64)
    found = await bench.pods.stats(member)
    assert found.cpu_percent >= 0
    assert 0 < found.memory_usage_mib <= found.memory_limit_mib
    assert found.memory_limit_mib == 64


async def test_log_of_a_member(bench: PodsBench) -> None:
    member = await bench.running(await bench.capsule())
    assert await bench.log(member) == ""
    await bench.write(member, "one\ntwo\n")
    await bench.logged(member, "two")
    await bench.write(member, "three\n", stream="stderr")
    assert await bench.logged(member, "three") == "one\ntwo\nthree\n"
    assert await bench.log(member, stdout=False) == "three\n"
    assert await bench.log(member, stderr=False) == "one\ntwo\n"
    assert await bench.log(member, stdout=False, stderr=False) == ""
    assert await bench.log(member, tail=2) == "two\nthree\n"
    assert await bench.log(member, tail=0) == ""
    assert await bench.log(member, tail=100) == "one\ntwo\nthree\n"


async def test_log_since_a_moment(bench: PodsBench) -> None:
    member = await bench.running(await bench.capsule())
    await bench.write(member, "early\n")
    stamp = (await bench.logged(member, "early", timestamps=True)).partition(" ")[0]
    moment = datetime.fromisoformat(stamp.partition(".")[0] + "+00:00").timestamp()
    await bench.write(member, "late\n")
    await bench.logged(member, "late")
    assert await bench.log(member, since=moment - 1) == "early\nlate\n"
    assert await bench.log(member, since=moment + 3600) == ""


# -- what was forgotten ------------------------------------------------------------------------------


async def test_nothing_that_runs_is_forgotten(bench: PodsBench) -> None:
    capsule = await bench.capsule()
    member = await bench.running(capsule)
    assert not [one for one in await bench.pods.forgotten() if one.capsule == capsule]
    box = await bench.box(capsule)
    assert not await bench.pods.end_forgotten(Forgotten("shim", box.sandbox_id, capsule))
    assert (await bench.seen(member)).state == "running"


# -- events ------------------------------------------------------------------------------------------


async def test_events_of_a_member_come_when_its_state_has_changed(bench: PodsBench) -> None:
    member = await bench.created(await bench.capsule())
    async with bench.listening() as events:
        await bench.pods.list()  # from here on nothing is missed
        await bench.pods.start(member)
        assert (await heard(events, member)).owner == bench.owner
        await bench.crash(member)
        await heard(events, member)
        found = await bench.seen(member)
        assert (found.state, found.exit_code) == ("exited", 137)
        await bench.pods.remove(member, force=False)
        await heard(events, member)
        assert await bench.pods.inspect(member) is None


async def test_events_of_a_sandbox(bench: PodsBench) -> None:
    async with bench.listening() as events:
        await bench.pods.sandboxes()
        capsule = await bench.capsule()
        assert (await heard(events, capsule)).owner == bench.owner
        await bench.pods.remove_sandbox(capsule)

        async def gone() -> None:
            while await bench.pods.sandbox(capsule) is not None:
                await heard(events, capsule)

        await gone()


async def test_events_that_are_cut_say_so(bench: PodsBench) -> None:
    async with bench.listening() as events:
        capsule = await bench.capsule()
        await heard(events, capsule)
        await bench.cut_events()
        with pytest.raises(EngineUnreachable):
            await heard(events, "nobody")
    async with bench.listening() as events:
        await bench.pods.list()
        member = await bench.running(capsule)
        await heard(events, member)


# -- images ------------------------------------------------------------------------------------------


async def test_images(bench: PodsBench) -> None:
    found = await bench.pods.image(bench.image)
    assert found is not None
    assert found.image_id.startswith("sha256:")
    assert found.size > 0
    absent = f"zun.invalid/{uuid4().hex}:1"
    assert await bench.pods.image(absent) is None
    await bench.pods.remove_image(absent)
