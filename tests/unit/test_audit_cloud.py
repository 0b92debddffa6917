"""The audit of what services hold: all records are read once, and what seems left over is asked for again."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from tests.support.simulated_node import SimulatedCloud, simulated_cloud
from tests.support.statements import statements
from zun.compute.audit.audit import Audit
from zun.compute.audit.base import Report
from zun.compute.audit.cloud import CloudKinds
from zun.compute.audit.ledger import Ledger
from zun.domain.held import Held
from zun.store.tables import containers

HOLDERS = "SELECT containers.uuid, containers.host, containers.cpu, containers.memory, containers.disk, containers.con"


async def audit(cloud: SimulatedCloud, folder: Path, *, heal: bool) -> Report:
    kinds = CloudKinds(cloud.api.control, "sim", timedelta(0)).all()
    ledger = Ledger(str(folder))
    return await Audit("sim", cloud.api.parts.clock, ledger, heal=heal, grace=timedelta(0)).run(kinds)


async def test_records_are_read_once_for_all_kinds(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        for _ in range(2):
            await cloud.wait(await cloud.create(), "Running")
        await cloud.die()
        with statements(cloud.api.parts.db) as seen:
            report = await audit(cloud, tmp_path, heal=False)
        assert (report.findings, len(report.looked_at)) == ([], 6)
        whole = [one for one in seen if one.startswith(HOLDERS) and "containers.uuid IN" not in one]
        assert len(whole) == 2, "one for ports, groups and attachments, one for both kinds of Placement"


async def test_what_was_made_after_the_records_were_read_is_no_leftover(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        kinds = CloudKinds(cloud.api.control, "sim", timedelta(0))
        assert await kinds._unclaimed([]) == []
        made, gone = await cloud.create(), str(uuid4())
        await cloud.wait(made, "Running")
        held = [Held(name, name, ours=True) for name in (made, gone)]
        assert [one.container for one in await kinds._unclaimed(held)] == [gone]


async def test_a_leftover_of_each_is_removed_by_what_is_true_then(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path) as cloud:
        uuid = await cloud.create()
        await cloud.wait(uuid, "Running")
        await cloud.die()
        async with cloud.api.parts.db.write() as connection:
            await connection.execute(containers.delete().where(containers.c.uuid == uuid))
        report = await audit(cloud, tmp_path, heal=True)
        assert {(one.kind, one.container, one.state) for one in report.findings} == {
            ("port", uuid, "removed"),
            ("allocation", uuid, "removed"),
        }
        assert (await audit(cloud, tmp_path, heal=False)).findings == []
