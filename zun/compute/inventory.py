"""Inventory: what the node has and what is used, to the database and to Placement; and its heartbeat (scenario 6)."""

from __future__ import annotations

import asyncio
import logging
import shutil
from typing import Any

from zun.compute.disk import is_full
from zun.compute.heartbeat import heartbeat
from zun.compute.node import BINARY, LONGEST_ROUND, Node
from zun.compute.topology import pinnable
from zun.domain import resources
from zun.domain.errors import PlacementUnavailable, Unavailable, ZunError
from zun.domain.moving import promise
from zun.placement.base import Inventory as Amount
from zun.placement.base import Provider
from zun.runtime.base import EngineInfo
from zun.store import compute_nodes, containers, services

LOG = logging.getLogger(__name__)


class Replaced(Unavailable):
    """Another agent process has registered for this host."""


class Inventory:
    """``refresh`` measures and reports; ``run`` does so at most every ``periodic_interval_max`` seconds."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._changed = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        node.usage_changed = self._changed.set
        node.report_now = self._report_now

    async def _report_now(self) -> None:
        """Returns when a run that began after this was asked is over."""
        over = asyncio.get_running_loop().create_future()
        self._waiting.append(over)
        self._changed.set()
        await over

    async def register(self) -> None:
        """Take the host's service record; leases of a former process of this host are void from now on."""
        node = self._node
        async with node.db.write() as connection:
            await services.register(
                connection,
                host=node.host,
                binary=BINARY,
                availability_zone=node.conf.default_availability_zone,
                instance=node.instance,
                now=node.clock.now(),
                relay=node.relay,
                fenced_after=promise(node.conf),
            )

    async def run(self) -> None:
        """Heartbeat and inventory on schedule; usage figures soon after containers came or went."""
        interval = float(self._node.conf.periodic_interval_max)
        next_full = self._node.clock.monotonic() + interval
        while True:
            self._node.vitals.beat("inventory", interval + LONGEST_ROUND)
            left = next_full - self._node.clock.monotonic()
            if left <= 0 or self._waiting:  # asked first: changes that never end must not keep the heartbeat waiting
                next_full = self._node.clock.monotonic() + interval
                waiting, self._waiting = self._waiting, []
                await self._guarded(self.refresh())
                for over in waiting:
                    if not over.done():  # who asked may have gone
                        over.set_result(None)
                continue
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                continue
            if self._waiting:
                continue
            await self._node.clock.sleep(0.5)  # many changes are one write
            self._changed.clear()
            await self._guarded(self._write_usage())

    async def _guarded(self, work: Any) -> None:
        try:
            await work
        except Replaced:
            raise
        except ZunError as error:
            LOG.warning("action=inventory result=failed reason=%s", error.message)
        except Exception:
            LOG.exception("action=inventory result=crashed")

    async def refresh(self) -> None:
        """Heartbeat, then measure (S6.1–S6.4)."""
        await self._heartbeat()
        await self.measure()

    async def measure(self) -> None:
        """Measure the node, write its record, tell Placement when something changed."""
        node = self._node
        info = await node.runtime.info()
        disk = await asyncio.to_thread(_disk_gib, info.root_dir)
        usable = max(0, int(disk * (1 - node.conf.compute.reserve_disk_for_image)))
        node.disk_quota_supported = info.disk_quota_supported
        node.engine_roots = (info.root_dir, node.pods_info.root_dir if node.pods_info else "")
        full = await is_full(node)
        topology = await asyncio.to_thread(pinnable, node.conf, info.cpus)
        node.floating_cpus = node.conf.floating_cpu_set.replace(" ", "") if topology else ""
        shared = await self._novas_provider() if node.conf.compute.host_shared_with_nova else {}
        async with node.db.write() as connection:
            count, cpu, memory, used_disk = await containers.usage_of_host(connection, node.host)
            node.provider_uuid = await compute_nodes.upsert(
                connection,
                _record(node, info, usable, topology)
                | {
                    "total_containers": count,
                    "cpu_used": cpu,
                    "mem_used": memory,
                    "disk_used": used_disk,
                    "disk_pressure": full,
                    **_capsules(node),
                }
                | shared,
                node.clock.now(),
            )
            service = await services.get(connection, node.host, BINARY)
        provider = self._provider(info, usable, bool(service and service["disabled"]))
        if await node.placement.set_provider(provider):
            LOG.info("action=inventory provider=%s result=written", provider.uuid)

    async def _heartbeat(self) -> None:
        node = self._node
        if await heartbeat(node):
            return
        async with node.db.read() as connection:
            if await services.get(connection, node.host, BINARY) is not None:
                raise Replaced(f"Another zun-compute has registered as host {node.host}.")
        await self.register()  # an admin deleted the record of a living service

    async def _write_usage(self) -> None:
        node = self._node
        full = await is_full(node)
        async with node.db.write() as connection:
            count, cpu, memory, disk = await containers.usage_of_host(connection, node.host)
            await compute_nodes.set_usage(
                connection,
                node.host,
                total_containers=count,
                cpu_used=cpu,
                mem_used=memory,
                disk_used=disk,
                disk_pressure=full,
                **_capsules(node),
            )

    async def _novas_provider(self) -> dict[str, Any]:
        """The record of a shared host carries the uuid of Nova's provider."""
        host = self._node.host
        uuid = await self._node.placement.provider_named(host)
        if uuid is None:
            raise PlacementUnavailable(
                f"Nova has made no resource provider named {host} yet ([compute]/host_shared_with_nova is set)."
            )
        return {"uuid": uuid}

    def _provider(self, info: EngineInfo, disk_gib: int, disabled: bool) -> Provider:
        conf = self._node.conf.compute
        traits = frozenset({resources.DISABLED_TRAIT}) if disabled else frozenset()
        inventories = {} if conf.host_shared_with_nova else _inventories(conf, info, disk_gib)
        uuid = self._node.provider_uuid or ""
        return Provider(uuid, self._node.host, inventories, traits, shared=conf.host_shared_with_nova)


def _inventories(conf: Any, info: EngineInfo, disk_gib: int) -> dict[str, Amount]:
    """What the node has to give; at least one unit of each is not reserved (S6.4)."""

    def amount(total: int, reserved: int, kind: str) -> Amount:
        asked, initial = conf[f"{kind}_allocation_ratio"], conf[f"initial_{kind}_allocation_ratio"]
        return Amount(total, max(0, min(reserved, total - 1)), asked or initial, keep_ratio=not asked)

    if conf.fractional_cpu:
        cpu = {resources.MILLICPU: amount(info.cpus * 1000, conf.reserved_host_cpus * 1000, "cpu")}
    else:
        cpu = {resources.VCPU: amount(info.cpus, conf.reserved_host_cpus, "cpu")}
    inventories = {**cpu, resources.MEMORY_MB: amount(info.memory_mib, conf.reserved_host_memory_mb, "ram")}
    if disk_gib > 0:
        inventories[resources.DISK_GB] = amount(disk_gib, -(-conf.reserved_host_disk_mb // 1024), "disk")
    return inventories


def _disk_gib(path: str) -> int:
    """Size of the file system that holds ``path``, GiB; 0 where it cannot be read (an engine elsewhere)."""
    try:
        return int(shutil.disk_usage(path).total // 1024**3)
    except OSError as error:
        LOG.warning("action=inventory disk=unknown path=%s reason=%s", path, error)
        return 0


def _capsules(node: Node) -> dict[str, Any]:
    """Does the node take capsules now, and with which runtimes, as far as its engine tells?"""
    info = node.pods_info
    return {"capsules": info is not None, "capsule_runtimes": list(info.handlers) or None if info else None}


def _record(node: Node, info: EngineInfo, disk_gib: int, topology: dict[str, list[int]]) -> dict[str, Any]:
    return {
        "hostname": node.host,
        "mem_total": info.memory_mib,
        "cpus": info.cpus,
        "disk_total": disk_gib,
        "disk_quota_supported": info.disk_quota_supported,
        "architecture": info.architecture,
        "os_type": info.os_type,
        "os": info.os,
        "kernel_version": info.kernel_version,
        "labels": dict(info.labels),
        "runtimes": list(info.runtimes),
        "enable_cpu_pinning": bool(topology),
        "numa_topology": topology or None,
    }
