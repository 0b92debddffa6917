"""Giving ports back where nothing was plugged, and waiting for a Neutron that does not answer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest

from tests.support.database import make_database
from zun import conf as zun_conf
from zun.domain.clock import SystemClock
from zun.domain.errors import NetworkSetupFailed, ServiceUnavailable
from zun.network.cni import CniNetwork
from zun.network.direct_active import ActivePorts
from zun.plumbing.handover import Handovers
from zun.plumbing.plumber import Plumber
from zun.store.database import Database


class Source:
    """Remembers what it was told."""

    awaited = True

    def __init__(self) -> None:
        self.released: list[str] = []

    async def release(self, container_uuid: str, *, exposed: bool = True) -> None:
        self.released.append(container_uuid)


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    made = await make_database(tmp_path)
    yield made
    await made.close()


async def test_the_apis_side_gives_ports_back_without_roots_rights(
    tmp_path: Path, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may neither read what the node's agent stored nor ask the switch or the kernel."""

    def refused(self: Any, capsule: str) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(Handovers, "get", refused)
    handovers, source = Handovers(str(tmp_path)), Source()
    plumber = Plumber(handovers.owner, ovs_database="unix:/nonexistent/db.sock")
    network = CniNetwork(cast("Any", source), plumber, handovers, db, zun_conf.load(files=[]), SystemClock())
    uuid = str(uuid4())
    await network.release_ports(uuid)
    assert source.released == [uuid]
    await network.close()


class Api:
    """A Neutron that answers as it is told."""

    def __init__(self) -> None:
        self.answer: dict[str, str] | Exception = {}

    async def statuses(self, ports: list[str]) -> dict[str, str]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_a_wait_that_ends_says_why_neutron_could_not_be_asked() -> None:
    api = Api()
    active = ActivePorts(cast("Any", api))
    api.answer = ServiceUnavailable("Neutron", "connection refused")
    with pytest.raises(NetworkSetupFailed) as told:
        await active.wait(["p1"], 2)
    assert told.value.message == (
        "Port p1 did not become ACTIVE in Neutron within 2 seconds; Neutron is not available: connection refused."
    )
    api.answer = {"p1": "DOWN"}
    with pytest.raises(NetworkSetupFailed, match=r"within 2 seconds; see its agent on this host\.$"):
        await active.wait(["p1"], 2)
    api.answer = {"p1": "ACTIVE", "p2": "ACTIVE"}
    await asyncio.gather(active.wait(["p1"], 60), active.wait(["p1", "p2"], 60))
    await active.close()
