"""A node that cannot report stops what others will start, and starts again what is still its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.simulated_hosts import SimulatedHost, SimulatedHosts, simulated_hosts
from tests.support.wait import eventually
from zun.compute.operations import common
from zun.compute.work import Outcome, Work
from zun.store.database import DatabaseUnavailable
from zun.store.tables import services


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[SimulatedHosts]:
    async with simulated_hosts(tmp_path, "a", "b", leases={"a": 3}) as made:
        yield made


class Cut:
    """The database of one host's fence: it can be cut off, while the test's own connection stays."""

    def __init__(self, host: SimulatedHost) -> None:
        assert host.node is not None
        self._node, self._db = host.node, host.node.db
        self.off = False
        host.node.db = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> object:
        if self.off and name in ("read", "write", "run"):
            raise DatabaseUnavailable("cut off")
        return getattr(self._db, name)


async def _states(host: SimulatedHost, *uuids: str) -> list[str | None]:
    engine = await host.engine()
    return [engine.get(uuid) for uuid in uuids]


async def test_cut_off_it_stops_what_would_be_lost_and_starts_it_when_it_is_back(cloud: SimulatedHosts) -> None:
    heals, plain = await cloud.create("a"), await cloud.create("a", auto_heal=False)
    cut, host = Cut(cloud["a"]), cloud["a"]
    assert host.node is not None
    await _renewed(cloud, "a")
    cut.off = True

    async def stopped() -> bool:
        return await _states(host, heals, plain) == ["exited", "running"]

    await eventually(stopped, 60, "what heals is stopped, and what does not runs on")
    assert json.loads((host.folder / "fenced.json").read_text()) == [heals]
    assert (await cloud.show(heals))["status"] == "Running"
    cut.off = False

    async def running() -> bool:
        return await _states(host, heals, plain) == ["running", "running"]

    await eventually(running, 60, "it runs again")
    await cloud.wait(heals, "Running", "a")
    assert await cloud.actions(heals) == ["start", "create"]
    await eventually(lambda: not (host.folder / "fenced.json").exists(), 60, "nothing is stopped any more")
    await cloud.truth()


async def _renewed(cloud: SimulatedHosts, host: str) -> None:
    """Its fence has seen all containers: of any four reports in a row one is the fence's."""
    count = sa.select(services.c.report_count).where(services.c.host == host)
    before = (await cloud.row(count))[0]

    async def reported() -> bool:
        return bool((await cloud.row(count))[0] >= before + 4)

    await eventually(reported, 60, "the lease was renewed")


async def test_what_was_moved_meanwhile_goes_and_is_not_started(cloud: SimulatedHosts) -> None:
    uuid = await cloud.create("a")
    cut, host = Cut(cloud["a"]), cloud["a"]
    cut.off = True

    async def stopped() -> bool:
        return await _states(host, uuid) == ["exited"]

    await eventually(stopped, 60, "it is stopped")

    await host.aged()
    await cloud.decide()
    await cloud.wait(uuid, "Running", "b")
    cut.off = False
    await eventually(lambda: _none(host), 60, "the first one has it no more")
    assert await cloud.actions(uuid) == ["evacuate", "create"]
    await cloud.truth()


async def _none(host: SimulatedHost) -> bool:
    return await host.engine() == {}


async def test_the_next_process_knows_what_was_stopped(cloud: SimulatedHosts) -> None:
    uuid = await cloud.create("a")
    host = cloud["a"]
    await host.kill()
    await host.runtime.stop(uuid, None)
    (host.folder / "fenced.json").write_text(json.dumps([uuid]))
    await host.live()
    await cloud.wait(uuid, "Running", "a")
    await eventually(lambda: _states_are(host, uuid, "running"), 60, "it runs again")


async def _states_are(host: SimulatedHost, uuid: str, state: str) -> bool:
    return await _states(host, uuid) == [state]


@pytest.mark.parametrize("reads", ["before it is stopped", "after it was stopped"])
async def test_what_is_being_made_when_the_node_is_cut_off_runs_when_it_is_back(
    cloud: SimulatedHosts, monkeypatch: pytest.MonkeyPatch, reads: str
) -> None:
    cut, host, uuids = Cut(cloud["a"]), cloud["a"], list[str]()
    read_back = common.read_back

    async def stopped() -> bool:
        return await _states(host, *uuids) == ["exited"]

    async def reading(work: Work) -> Outcome:
        """What of the create is left happens while the node is cut off."""
        found = await read_back(work) if reads.startswith("before") else None
        uuids.append(work.uuid)
        cut.off = True
        await eventually(stopped, 60, "the fence has stopped it")
        return found or await read_back(work)

    monkeypatch.setattr(common, "read_back", reading)
    body = {"image": "busybox", "command": ["sleep", "9"], "auto_heal": True, "host": "a"}
    answer = await cloud.http.post("/v1/containers", params={"run": "true"}, json=body)
    assert answer.status_code == 202, answer.text
    await eventually(lambda: bool(uuids) and stopped(), 60, "the fence has stopped it")
    monkeypatch.setattr(common, "read_back", read_back)
    cut.off = False
    uuid = str(answer.json()["uuid"])

    async def runs() -> bool:
        shown = await cloud.show(uuid)
        return (shown["status"], shown["task_state"]) == ("Running", None) and await _states(host, uuid) == ["running"]

    await eventually(runs, 60, "it runs")
    assert await cloud.actions(uuid) == ["start", "create"]
    await eventually(lambda: not (host.folder / "fenced.json").exists(), 60, "nothing is stopped any more")
    await cloud.truth()
