"""zun-compute: one agent a node. Registers, then works, watches, syncs and reports until told to stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from zun.compute.calls import Calls
from zun.compute.capsules import watch as capsules
from zun.compute.fence import Fence
from zun.compute.homecoming import settle, tidy
from zun.compute.image_care import ImageCare
from zun.compute.inventory import Inventory
from zun.compute.node import BINARY, Node
from zun.compute.plugging import Plugging
from zun.compute.relay import Relay
from zun.compute.remount import remount
from zun.compute.resume import resume
from zun.compute.sync import Sync
from zun.compute.watcher import Watcher
from zun.compute.worker import Worker
from zun.domain.errors import EngineUnreachable, ZunError
from zun.store import operations, services

LOG = logging.getLogger(__name__)

WITHDRAWAL = 3.0
"""Seconds that an agent told to stop waits for the database."""


async def run(node: Node, ready: Callable[[], None]) -> None:
    """Run until cancelled. ``ready`` is called once the node is registered and takes operations."""
    worker = Worker(node)
    sync = Sync(node, lambda: worker.busy)
    watcher = Watcher(node, sync.soon)
    capsule_watch = capsules.CapsuleWatch(node, lambda: worker.busy)
    inventory = Inventory(node)
    await _reach_engine(node)
    await capsules.reach(node)
    # First of all: a second agent of a host is refused here, before it takes the living one's record and leases.
    calls = Calls(node, sync.soon)
    await node.bus.serve(node.host, worker.ring, calls.handlers())
    relay = Relay(node)
    try:
        async with relay.serving():
            node.relay = relay.address
            await _work(node, ready, worker, sync, watcher, capsule_watch, inventory)
    finally:
        calls.close()


async def _work(
    node: Node,
    ready: Callable[[], None],
    worker: Worker,
    sync: Sync,
    watcher: Watcher,
    capsule_watch: capsules.CapsuleWatch,
    inventory: Inventory,
) -> None:
    async with node.db.write() as connection:
        await operations.disown(connection, node.host, node.instance)
    await tidy(node, worker)
    await _until_measured(inventory)  # before the service is told to be up: up means that it can be chosen
    fence = Fence(node, sync.soon)
    await inventory.register()
    await settle(node)
    if node.conf.compute.remount_container_volume:
        await remount(node)
    plugging = Plugging(node)
    await plugging.begin()
    if node.conf.compute.resume_container_state:
        await resume(node)
    LOG.info("action=start host=%s instance=%s result=ready", node.host, node.instance)
    ready()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(worker.run(), name="worker")
            group.create_task(watcher.run(), name="watcher")
            group.create_task(capsule_watch.run(), name="capsules")
            group.create_task(sync.run(), name="sync")
            group.create_task(inventory.run(), name="inventory")
            group.create_task(ImageCare(node).run(), name="images")
            group.create_task(fence.run(), name="fence")
    finally:
        await plugging.end()
        await _withdraw(node)


async def _withdraw(node: Node) -> None:
    """Its containers go on while the agent is away in an orderly way, so that no other node may start them."""
    try:
        async with asyncio.timeout(WITHDRAWAL):
            async with node.db.write() as connection:
                await services.withdraw(connection, node.host, BINARY, node.instance)
    except (ZunError, TimeoutError) as error:
        LOG.warning("action=stop host=%s result=promise not withdrawn reason=%s", node.host, error or "it takes long")


async def _reach_engine(node: Node) -> None:
    """Wait for the engine: a node whose engine starts later than the agent is not an error."""
    wait = 0.5
    while True:
        try:
            await node.runtime.connect()
            return
        except EngineUnreachable as error:
            LOG.error("action=start host=%s result=waiting for the engine reason=%s", node.host, error.message)
            await node.clock.sleep(wait)
            wait = min(wait * 2, 15.0)


async def _until_measured(inventory: Inventory) -> None:
    """The first inventory; without it the node cannot be chosen."""
    wait = 0.5
    while True:
        try:
            await inventory.measure()
            return
        except ZunError as error:
            LOG.error("action=inventory result=failed reason=%s", error.message)
            await asyncio.sleep(wait)
            wait = min(wait * 2, 15.0)
