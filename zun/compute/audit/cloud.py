"""What services hold for containers. Theirs and ours look alike: ours is what carries our mark, or what our operations
tell of, as for ``zun-manage placement audit``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial

from zun.compute.audit.base import Kind, Leftover, Look, Scope
from zun.control import container_volumes, placement_audit
from zun.control.base import Control
from zun.control.placement_audit import Finding
from zun.domain.container import VolumeMapping
from zun.domain.held import Held
from zun.store import audit as store
from zun.store import volume_mappings
from zun.volume.base import Volumes

_DELETE_SECONDS = 60.0
_NO_CONTAINER = "no record of a container that should have it"


class CloudKinds:
    """``host``: the machine where the audit runs. ``grace``: as the audit's."""

    def __init__(self, control: Control, host: str, grace: timedelta) -> None:
        self._control = control
        self._host = host
        self._grace = grace
        self._claiming: frozenset[str] | None = None
        """Containers that hold something, as read first in this audit."""
        self._report: placement_audit.Report | None = None
        self._told: set[placement_audit.Kind] = set()

    def all(self) -> Sequence[Kind]:
        looks: dict[str, Look] = {
            "port": self._ports,
            "security_group": self._groups,
            "attachment": self._attachments,
            "volume": self._volumes,
            "allocation": partial(self._placement, placement_audit.Kind.LEAKED),
            "provider": partial(self._placement, placement_audit.Kind.PROVIDER),
        }
        return [Kind(name, Scope.CLOUD, look) for name, look in looks.items()]

    async def _unclaimed(self, held: Sequence[Held]) -> Sequence[Held]:
        """Ours, and of containers that are not there, or hold nothing, and that nothing is at work on. All records are
        read once in an audit; what seems left over by them is asked for again."""
        async with self._control.db.read() as connection:
            if self._claiming is None:
                self._claiming = _made(await store.holders(connection))
            suspects = {one.container for one in held if one.container} - self._claiming
            if not suspects:
                return []
            moving = await store.moving(connection)  # before the rows: an operation ends with what it says in them
            now = await store.holders(connection, suspects)
            left = [one for one in held if one.container in suspects - _made(now) - moving]
            known = set(now) | await store.known(connection, {one.container for one in left})
        return [one for one in left if one.ours or one.container in known]

    # -- networks ------------------------------------------------------------------------------------

    async def _ports(self) -> Sequence[Leftover]:
        return await self._of_network(await self._control.network.ports())

    async def _groups(self) -> Sequence[Leftover]:
        return await self._of_network(await self._control.network.groups())

    async def _of_network(self, held: Sequence[Held]) -> Sequence[Leftover]:
        return [
            Leftover(one.name, _NO_CONTAINER, partial(self._release, one.container), one.container, one.since)
            for one in await self._unclaimed(held)
        ]

    async def _release(self, container: str) -> str:
        """Ports and group; a port that the user gave is as it was."""
        await self._control.network.release_ports(container)
        return ""

    # -- volumes -------------------------------------------------------------------------------------

    async def _attachments(self) -> Sequence[Leftover]:
        found = []
        for driver in self._control.volumes.values():
            left = await self._unclaimed(await driver.held())
            async with self._control.db.read() as connection:
                mounted = await volume_mappings.mounted(connection)
            found += [
                Leftover(one.name, _NO_CONTAINER, partial(self._let_go, driver, one), one.container, one.since)
                for one in left
                if (one.container, one.volume) not in mounted
            ]
        return found

    async def _let_go(self, driver: Volumes, one: Held) -> str:
        """A node that still has it takes it down in its order: what is mounted there would be torn off."""
        host = await driver.host_of(one.volume, one.container)
        if host is not None and host != self._host:
            async with self._control.db.read() as connection:
                if host in await store.nodes(connection):
                    return f"host {host} has it; run the audit there"
        mapping = VolumeMapping("", one.container, "", "", "volume", driver.name, "", one.volume)
        return "" if await driver.let_go(mapping) else "only its host can end it"

    async def _volumes(self) -> Sequence[Leftover]:
        """Made for a request that died, by the sweep's own judgement: what is younger may be about to get its mount."""
        control, why = self._control, "made for a request, and no mount names it"
        now, sweep = control.clock.now(), timedelta(seconds=control.conf.compute.abandoned_volume_seconds)
        found = []
        for driver in control.volumes.values():
            left = await driver.abandoned(now - sweep)
            old = set(await driver.abandoned(now - max(sweep, self._grace)) if left else ())
            for ident in left:  # the records tell no age, only what is older than a moment
                since = now - (max(sweep, self._grace) if ident in old else sweep)
                found.append(Leftover(ident, why, partial(self._delete, driver, ident), since=since))
        return found

    async def _delete(self, driver: Volumes, ident: str) -> str:
        if not await container_volumes.give_up(self._control, driver.name, ident):
            return "a mount names it by now"
        try:
            async with asyncio.timeout(_DELETE_SECONDS):
                await driver.delete(ident)
        except TimeoutError:
            return f"not deleted within {_DELETE_SECONDS:g} s; it may be mounted"
        return ""

    # -- Placement -----------------------------------------------------------------------------------

    async def _placement(self, kind: placement_audit.Kind) -> Sequence[Leftover]:
        """One look tells of both kinds; whoever looks again looks anew."""
        if self._report is None or kind in self._told:
            self._report, self._told = await placement_audit.look(self._control), set()
        self._told.add(kind)
        report = self._report
        return [
            Leftover(
                one.consumer or one.provider or "",
                _NO_CONTAINER if one.consumer else "no node has its uuid",
                partial(self._make_right, one),
                one.consumer or "",
            )
            for one in report.findings
            if one.kind == kind
        ]

    async def _make_right(self, finding: Finding) -> str:
        return await placement_audit.make_right(self._control, finding)


def _made(holders: Mapping[str, store.Holder]) -> frozenset[str]:
    return frozenset(uuid for uuid, holder in holders.items() if holder.made)
