"""What this machine holds: in its engines, in the kernel, in files. Only what carries this node's mark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from zun.compute.audit.base import Kind, Leftover, Look, NotHere, Scope
from zun.compute.capsules.compare import remove_stray
from zun.compute.capsules.watch import reach
from zun.compute.node import Node
from zun.compute.sync import made, plan, remove_orphan
from zun.domain.container import VolumeMapping
from zun.domain.errors import EngineUnreachable
from zun.network.base import PodNetwork
from zun.runtime.pods import Forgotten, Pods
from zun.store import capsules, compute_nodes, containers, operations, volume_mappings
from zun.volume.base import Volumes

_NO_RECORD = "no record of this host has it"
_TAKEN = "a record has it by now"


class NodeKinds:
    """``all``: what holds others first. Uuids that an operation of this host works on are left to it."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def all(self) -> Sequence[Kind]:
        looks: dict[str, Look] = {
            "engine_container": self._engine_containers,
            "sandbox": self._sandboxes,
            "member": self._members,
            "shim": partial(self._forgotten, "shim"),
            "network_namespace": partial(self._forgotten, "namespace"),
            "interface": self._interfaces,
            "mount": self._mounts,
        }
        return [Kind(name, Scope.NODE, look) for name, look in looks.items()]

    async def is_node(self) -> bool:
        """Has an agent ever run under this name?"""
        async with self._node.db.read() as connection:
            return bool(await compute_nodes.of_hosts(connection, [self._node.host]))

    async def _at_work(self) -> frozenset[str]:
        async with self._node.db.read() as connection:
            waiting = await operations.next_of_host(connection, self._node.host)
        return frozenset(operation.container_uuid for operation in waiting)

    # -- engines -----------------------------------------------------------------------------------

    async def _engine_containers(self) -> Sequence[Leftover]:
        node = self._node
        await node.runtime.connect()
        engine = await node.runtime.list()
        at_work = await self._at_work()  # before the rows: a delete's row goes as its operation ends
        async with node.db.read() as connection:
            rows = await containers.of_host(connection, node.host)
        orphans = set(plan(rows, engine, node.owner).orphans) - at_work
        return [
            Leftover(f"zun-{one.uuid}", _NO_RECORD, partial(self._remove_orphan, one.uuid), one.uuid, one.created_at)
            for one in engine
            if one.uuid in orphans
        ]

    async def _remove_orphan(self, uuid: str) -> str:
        return "" if await remove_orphan(self._node, uuid) else _TAKEN

    async def _pods(self) -> Pods:
        """Raises NotHere where no engine for capsules answers and none is needed, EngineUnreachable."""
        node = self._node
        if node.pods is None:
            raise NotHere("this node has no engine for capsules")
        if node.pods_info is None and not await reach(node):
            async with node.db.read() as connection:
                rows = await capsules.of_host(connection, node.host)
            if rows:
                raise EngineUnreachable(node.pods_silence)
            raise NotHere(f"no engine for capsules answers, and the host has no capsules: {node.pods_silence}")
        return node.pods

    async def _sandboxes(self) -> Sequence[Leftover]:
        node, pods = self._node, await self._pods()
        ours = {one.uuid: one for one in await pods.sandboxes() if one.owner == node.owner}
        at_work = await self._at_work()
        async with node.db.read() as connection:
            rows = await capsules.of_host(connection, node.host)
        return [
            Leftover(ours[uuid].sandbox_id, _NO_RECORD, partial(self._remove_stray, uuid), uuid, ours[uuid].created_at)
            for uuid in sorted(set(ours) - made(rows) - at_work)
        ]

    async def _remove_stray(self, uuid: str) -> str:
        return "" if await remove_stray(self._node, uuid) else _TAKEN

    async def _members(self) -> Sequence[Leftover]:
        """Without a sandbox: Docker's only, elsewhere they go with it."""
        node, pods = self._node, await self._pods()
        ours = [one for one in await pods.list() if one.owner == node.owner]
        boxes = {one.uuid for one in await pods.sandboxes()}
        at_work = await self._at_work()
        async with node.db.read() as connection:
            known = made(await capsules.of_host(connection, node.host))
        left = [one for one in ours if one.capsule_uuid not in boxes | known | at_work]
        return [
            Leftover(one.engine_id, "its capsule is gone", partial(self._remove_member, pods, one.uuid), one.uuid)
            for one in left
        ]

    @staticmethod
    async def _remove_member(pods: Pods, uuid: str) -> str:
        await pods.remove(uuid, force=True)
        return ""

    async def _forgotten(self, kind: str) -> Sequence[Leftover]:
        pods = await self._pods()
        found = [one for one in await pods.forgotten() if one.kind == kind]
        at_work = await self._at_work()
        return [
            Leftover(one.name, "its engine does not know of it", partial(self._end, pods, one), one.capsule)
            for one in found
            if one.capsule not in at_work
        ]

    @staticmethod
    async def _end(pods: Pods, one: Forgotten) -> str:
        await pods.end_forgotten(one)
        return ""

    # -- the machine -------------------------------------------------------------------------------

    async def _interfaces(self) -> Sequence[Leftover]:
        """Devices and interface data, of one container together."""
        node, found = self._node, list[Leftover]()
        networks: list[PodNetwork] = [node.network]
        if node.pod_network is not None and node.pod_network is not node.network:
            networks.append(node.pod_network)
        for network in networks:
            plugged = set(await network.plugged())
            at_work = await self._at_work()
            async with node.db.read() as connection:
                rows = [
                    *await containers.of_host(connection, node.host),
                    *await capsules.of_host(connection, node.host),
                ]
            left = plugged - at_work - {row.uuid for row in rows}
            found += [Leftover(uuid, _NO_RECORD, partial(self._unplug, network, uuid), uuid) for uuid in sorted(left)]
        return found

    @staticmethod
    async def _unplug(network: PodNetwork, uuid: str) -> str:
        await network.unplug(uuid)
        return ""

    async def _mounts(self) -> Sequence[Leftover]:
        """Places of volumes and files, by the uuids of their mappings."""
        node = self._node
        standing = [(driver, one) for driver in node.volumes.values() for one in await driver.standing()]
        at_work = await self._at_work()
        async with node.db.read() as connection:
            here = {mapping.uuid for mapping in await volume_mappings.of_host(connection, node.host)}
            owners = await volume_mappings.owners(connection, [one.uuid for _, one in standing])
        found = []
        for driver, one in standing:
            container = one.container_uuid or owners.get(one.uuid, "")
            if one.uuid not in here and container not in at_work:
                found.append(Leftover(one.uuid, _NO_RECORD, partial(self._detach, driver, one), container))
        return found

    @staticmethod
    async def _detach(driver: Volumes, mapping: VolumeMapping) -> str:
        await driver.detach(mapping)
        return ""
