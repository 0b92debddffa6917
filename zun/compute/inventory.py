"""Inventory: what the node has and what is used, to the database and to Placement; and its heartbeat (scenario 6)."""

from __future__ import annotations

import asyncio
import logging
import shutil
from typing import Any

from zun.compute.node import BINARY, Node
from zun.domain import resources
from zun.domain.errors import Unavailable, ZunError
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
        node.usage_changed = self._changed.set

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
            )

    async def run(self) -> None:
        """Heartbeat and inventory on schedule; usage figures soon after containers came or went."""
        interval = float(self._node.conf.periodic_interval_max)
        next_full = self._node.clock.monotonic() + interval
        while True:
            left = next_full - self._node.clock.monotonic()
            if left <= 0:  # asked first: changes that never end must not keep the heartbeat waiting
                next_full = self._node.clock.monotonic() + interval
                await self._guarded(self.refresh())
                continue
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
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
        async with node.db.write() as connection:
            count, cpu, memory, used_disk = await containers.usage_of_host(connection, node.host)
            node.provider_uuid = await compute_nodes.upsert(
                connection,
                _record(node, info, usable)
                | {
                    "total_containers": count,
                    "cpu_used": cpu,
                    "mem_used": memory,
                    "disk_used": used_disk,
                },
                node.clock.now(),
            )
            service = await services.get(connection, node.host, BINARY)
        provider = self._provider(info, usable, bool(service and service["disabled"]))
        if await node.placement.set_provider(provider):
            LOG.info("action=inventory provider=%s result=written", provider.uuid)

    async def _heartbeat(self) -> None:
        node = self._node
        async with node.db.write() as connection:
            if await services.heartbeat(connection, node.host, BINARY, node.instance, node.clock.now()):
                return
            if await services.get(connection, node.host, BINARY) is not None:
                raise Replaced(f"Another zun-compute has registered as host {node.host}.")
        await self.register()  # an admin deleted the record of a living service

    async def _write_usage(self) -> None:
        node = self._node
        async with node.db.write() as connection:
            count, cpu, memory, disk = await containers.usage_of_host(connection, node.host)
            await compute_nodes.set_usage(
                connection, node.host, total_containers=count, cpu_used=cpu, mem_used=memory, disk_used=disk
            )

    def _provider(self, info: EngineInfo, disk_gib: int, disabled: bool) -> Provider:
        conf = self._node.conf.compute
        cpu_ratio = conf.cpu_allocation_ratio or conf.initial_cpu_allocation_ratio
        cpus = Amount(info.cpus, conf.reserved_host_cpus, cpu_ratio)
        if conf.fractional_cpu:
            cpus = Amount(info.cpus * 1000, conf.reserved_host_cpus * 1000, cpu_ratio)
        inventories = {
            resources.MILLICPU if conf.fractional_cpu else resources.VCPU: cpus,
            resources.MEMORY_MB: Amount(
                info.memory_mib,
                min(conf.reserved_host_memory_mb, info.memory_mib - 1),
                conf.ram_allocation_ratio or conf.initial_ram_allocation_ratio,
            ),
        }
        if disk_gib > 0:
            inventories[resources.DISK_GB] = Amount(
                disk_gib,
                min(-(-conf.reserved_host_disk_mb // 1024), disk_gib - 1),
                conf.disk_allocation_ratio or conf.initial_disk_allocation_ratio,
            )
        traits = frozenset({resources.DISABLED_TRAIT}) if disabled else frozenset()
        return Provider(self._node.provider_uuid or "", self._node.host, inventories, traits)


def _disk_gib(path: str) -> int:
    """Size of the file system that holds ``path``, GiB; 0 where it cannot be read (an engine elsewhere)."""
    try:
        return int(shutil.disk_usage(path).total // 1024**3)
    except OSError as error:
        LOG.warning("action=inventory disk=unknown path=%s reason=%s", path, error)
        return 0


def _record(node: Node, info: EngineInfo, disk_gib: int) -> dict[str, Any]:
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
        "enable_cpu_pinning": node.conf.compute.enable_cpu_pinning,
    }
