"""News of the engine that comes at a bad moment, faults of one container among many, and two agents of one host."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.simulated_node import SimulatedCloud, simulated_cloud
from tests.support.wait import eventually
from zun.compute import ending, watcher
from zun.compute.inventory import Inventory
from zun.compute.operations import common
from zun.compute.work import Outcome, Work
from zun.domain.errors import Conflict, EngineError, EngineUnreachable, StartFailed
from zun.domain.observed import EngineSpec
from zun.store import containers as container_store
from zun.store import operations as operation_store
from zun.store.tables import local_allocations, local_ports, operation_events, operations, services


async def test_a_process_that_ends_while_its_start_is_written_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S5.5: the start read "running", the process ended, and only then the start is recorded."""
    looked = 0
    write, refresh = ending.write, watcher.refresh

    async def counted(*given: Any, **options: Any) -> bool:
        nonlocal looked
        done = await refresh(*given, **options)
        looked += 1
        return done

    async with simulated_cloud(tmp_path) as cloud:

        async def late(work: Work, outcome: Outcome) -> None:
            before = looked
            cloud.runtime.crash(work.uuid)
            await eventually(lambda: looked > before, 30, "the watcher has looked and left the row to its operation")
            await write(work, outcome)

        monkeypatch.setattr(watcher, "refresh", counted)
        monkeypatch.setattr(ending, "write", late)
        uuid = await cloud.create()
        await cloud.wait(uuid, "Stopped")


async def test_news_are_not_lost_to_a_write_of_somebody_else(tmp_path: Path) -> None:
    """A rename between the look and its write: the row is looked at again."""
    async with simulated_cloud(tmp_path) as cloud:
        uuid = await cloud.create()
        await cloud.wait(uuid, "Running")
        cloud.runtime.faults.calls.clear()
        cloud.runtime.faults.delays["inspect"] = 0.3
        cloud.runtime.crash(uuid)
        await eventually(lambda: cloud.runtime.faults.calls["inspect"] > 0, 30, "the watcher asks the engine")
        assert (await cloud.http.patch(f"/v1/containers/{uuid}", json={"name": "new"})).status_code == 200
        await cloud.wait(uuid, "Stopped")


async def _silently(cloud: SimulatedCloud, uuid: str) -> None:
    """The process ended and no event told."""
    sim = cloud.runtime._get(uuid)
    sim.state, sim.exit_code, sim.finished_at = "exited", 1, cloud.runtime.clock.now()


async def test_one_container_that_cannot_be_looked_at_holds_up_no_other(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        broken, other = await cloud.create(), await cloud.create()
        for uuid in (broken, other):
            await cloud.wait(uuid, "Running")
            await _silently(cloud, uuid)
        inspect = cloud.runtime.inspect

        async def odd(uuid: str) -> Any:
            if uuid == broken:
                raise KeyError("State")
            return await inspect(uuid)

        cloud.runtime.inspect = odd  # type: ignore[method-assign]
        await cloud.sync(1)
        assert await cloud.status(other) == "Stopped"


async def test_an_orphan_that_cannot_be_removed_holds_up_no_other(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        assert cloud.node
        for number in range(2):
            spec = EngineSpec(
                uuid=f"{number:08d}-0000-4000-8000-000000000000", owner=cloud.node.owner, name="o", image="i"
            )
            cloud.runtime.adopt(spec)
        cloud.runtime.fail_next("remove", EngineError("device busy"))
        await cloud.sync(2)
        assert len(await cloud.runtime.list()) == 1


async def test_a_container_made_after_its_create_was_given_up_is_removed(tmp_path: Path) -> None:
    """The engine finishes a call long after its caller gave it up: the record says Error, and nothing may be left."""
    async with simulated_cloud(tmp_path) as cloud:
        assert cloud.node
        cloud.runtime.fail_next("create", EngineError("too late"))
        uuid = await cloud.create()
        await cloud.wait(uuid, "Error")
        cloud.runtime.adopt(EngineSpec(uuid=uuid, owner=cloud.node.owner, name="n", image="busybox"), state="created")
        await cloud.sync(2)
        assert await cloud.runtime.list() == []


@pytest.mark.parametrize("loop", ["worker", "sync", "watcher"])
async def test_an_unexpected_fault_does_not_end_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: str
) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        if loop == "worker":
            monkeypatch.setattr(operation_store, "next_of_host", _once(operation_store.next_of_host), raising=False)
        elif loop == "sync":
            monkeypatch.setattr(container_store, "of_host", _once(container_store.of_host))
            cloud.runtime.cut_events()
        else:
            monkeypatch.setattr(cloud.runtime, "events", _once(cloud.runtime.events))
            cloud.runtime.cut_events()
        uuid = await cloud.create()
        await cloud.wait(uuid, "Running")
        await cloud.sync(1)
        assert cloud._task is not None
        assert not cloud._task.done()
        cloud.runtime.crash(uuid)
        await cloud.wait(uuid, "Stopped")


def _once(function: Any) -> Any:
    """The first call raises what nobody expects."""
    fresh = [True]

    def call(*given: Any, **options: Any) -> Any:
        if fresh:
            fresh.clear()
            raise KeyError("unexpected")
        return function(*given, **options)

    return call


async def test_a_second_agent_of_a_host_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        first, task = cloud.node, cloud._task
        assert first
        with pytest.raises(Conflict):
            await cloud.live()
        cloud.node, cloud._task = first, task
        [(instance,)] = await cloud.rows(sa.select(services.c.instance))
        assert instance == first.instance
        await Inventory(first).refresh()  # its heartbeat still counts
        await cloud.wait(await cloud.create(), "Running")


@pytest.mark.parametrize("verb", ["start", "reboot", "rebuild"])
async def test_another_try_that_fails_holds_nothing_either(tmp_path: Path, verb: str) -> None:
    """S1.27: a container that was never made, tried again, refused again."""
    async with simulated_cloud(tmp_path) as cloud:
        cloud.runtime.fail_next("start", StartFailed("refused"))
        cloud.runtime.fail_next("create", EngineError("no such runtime"))
        uuid = await cloud.create()
        await cloud.wait(uuid, "Error")
        cloud.runtime.fail_next("create", EngineError("still no such runtime"))
        assert (await cloud.http.post(f"/v1/containers/{uuid}/{verb}")).status_code == 202

        async def refused() -> bool:
            return "still" in ((await cloud.show(uuid) or {}).get("status_reason") or "")

        await eventually(refused, 30, "the second try is refused")
        await cloud.wait(uuid, "Error")
        assert await cloud.rows(sa.select(local_allocations)) == []
        assert await cloud.rows(sa.select(local_ports)) == []


async def test_what_was_to_be_given_back_is_tried_whatever_the_fault(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        cloud.runtime.fail_next("start", StartFailed("refused"))
        cloud.runtime.fail_next("remove", EngineError("device or resource busy"), times=2)
        uuid = await cloud.create()
        await cloud.wait(uuid, "Error")

        async def given_back() -> bool:
            held = [*await cloud.rows(sa.select(local_ports)), *await cloud.rows(sa.select(local_allocations))]
            return not held and not await cloud.runtime.list()

        await eventually(given_back, 60, "all is given back")
        await cloud.truth()


async def test_steps_of_an_operation_that_was_called_off_do_not_stay_open(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        cloud.runtime.faults.hang("pull")
        uuid = await cloud.create(image="slow")
        open_steps = sa.select(operation_events.c.id).where(operation_events.c.finish_time.is_(None))
        await eventually(lambda: cloud.rows(open_steps), 30, "the running step is shown")
        await cloud.http.delete(f"/v1/containers/{uuid}", params={"force": "true"})
        await cloud.wait(uuid, "gone")

        async def closed() -> bool:
            return not await cloud.rows(open_steps)

        await eventually(closed, 30, "no step is open")
        cloud.runtime.faults.resume("pull")


async def test_a_worker_that_lost_its_operation_undoes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped for longer than its lease: another agent carried the create out meanwhile."""
    undone = []

    async def undo(work: Work, error: Exception) -> Outcome:
        undone.append(work.uuid)
        return Outcome()

    async with simulated_cloud(tmp_path) as cloud:
        monkeypatch.setattr(common, "undo", undo)
        cloud.runtime.faults.hang("create")
        cloud.runtime.fail_next("create", EngineError("woken too late"))
        uuid = await cloud.create()
        await eventually(lambda: cloud.runtime.faults.calls["create"] > 0, 30, "the create is at work")
        async with cloud.api.parts.db.write() as connection:
            now = cloud.api.parts.clock.now()
            await connection.execute(
                operations.update().values(worker="another", lease_until=now + timedelta(minutes=9))
            )
        cloud.runtime.faults.resume("create")
        assert cloud.node

        async def dropped() -> bool:
            async with cloud.api.parts.db.read() as connection:
                row = await container_store.get(connection, uuid)
            return bool(
                row
                and row.status == "Creating"
                and not any(task.get_name() == f"create-{uuid}" for task in asyncio.all_tasks())
            )

        await eventually(dropped, 30, "the worker lets go")
        assert undone == []


async def test_an_operation_put_off_before_the_clock_was_set_back_is_not_put_off_for_hours(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        uuid = await cloud.create()
        await cloud.wait(uuid, "Running")
        cloud.runtime.fail_next("remove", EngineUnreachable("away"))
        await cloud.http.delete(f"/v1/containers/{uuid}", params={"stop": "true"})

        async def put_off() -> list[Any]:
            return await cloud.rows(sa.select(operations.c.id).where(operations.c.not_before.is_not(None)))

        await eventually(put_off, 30, "the delete is put off")
        async with cloud.api.parts.db.write() as connection:
            later = cloud.api.parts.clock.now() + timedelta(hours=1)
            await connection.execute(
                operations.update().where(operations.c.finish_time.is_(None)).values(not_before=later)
            )
        await cloud.wait(uuid, "gone")


async def test_a_container_with_many_operations_leaves_the_others_their_turn(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        greedy, other = await cloud.create(), await cloud.create(run=False)
        await cloud.wait(greedy, "Running")
        await cloud.wait(other, "Created")
        cloud.runtime.faults.hang("pause")
        await cloud.http.post(f"/v1/containers/{greedy}/pause")
        await eventually(lambda: cloud.runtime.faults.calls["pause"] > 0, 30, "the pause is at work")
        async with cloud.api.parts.db.write() as connection:
            [first] = list(await connection.execute(sa.select(operations).where(operations.c.kind == "pause")))
            rows = [dict(first._mapping) | {"id": None, "worker": None, "state": "queued"} for _ in range(1100)]
            for row in rows:
                row.pop("id")
            await connection.execute(operations.insert(), rows)
        await cloud.http.post(f"/v1/containers/{other}/start")
        await cloud.wait(other, "Running")
        async with cloud.api.parts.db.write() as connection:
            await connection.execute(
                operations.delete().where(operations.c.kind == "pause", operations.c.state == "queued")
            )
        cloud.runtime.faults.resume("pause")
        await cloud.wait(greedy, "Paused")


async def test_changes_without_end_do_not_keep_the_heartbeat_waiting(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path, periodic_interval_max=1) as cloud:
        assert cloud.node
        node, write_usage = cloud.node, Inventory._write_usage

        async def busy(self: Inventory) -> None:
            await write_usage(self)
            node.usage_changed()  # something ended while this was written

        Inventory._write_usage = busy  # type: ignore[method-assign]
        try:
            node.usage_changed()
            [(before,)] = await cloud.rows(sa.select(services.c.report_count))

            async def beats() -> bool:
                [(count,)] = await cloud.rows(sa.select(services.c.report_count))
                return bool(count > before + 1)

            await eventually(beats, 30, "the heart beats on")
        finally:
            Inventory._write_usage = write_usage  # type: ignore[method-assign]


@pytest.mark.parametrize(("verb", "status"), [("reboot", "Running"), ("stop", "Created")])
async def test_a_container_lost_in_an_operation_is_healed_into_what_was_asked_for(
    tmp_path: Path, verb: str, status: str
) -> None:
    """S5.8: removed by hand while the operation was at work."""
    async with simulated_cloud(tmp_path) as cloud:
        uuid = await cloud.create(auto_heal=True)
        await cloud.wait(uuid, "Running")
        cloud.runtime.faults.hang(verb)
        await cloud.http.post(f"/v1/containers/{uuid}/{verb}")
        await eventually(lambda: cloud.runtime.faults.calls[verb] > 0, 30, "the operation is at work")
        cloud.runtime.vanish(uuid)
        cloud.runtime.faults.resume(verb)
        await cloud.wait(uuid, status)
        await cloud.truth()
