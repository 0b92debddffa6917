"""All that is done to a container's interfaces on this machine, for callers in the event loop.

Each method is idempotent and safe after a death at any point of another: what exists is found by its marks.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pyroute2.netlink.exceptions import NetlinkError

from zun.domain.errors import NetworkSetupFailed
from zun.plumbing import audit, ends, links
from zun.plumbing.ovs import OpenVSwitch, OvsPort
from zun.plumbing.vif import Vif, tap_of

LOG = logging.getLogger(__name__)

T = TypeVar("T")

_THREADS = 4


class Plumber:
    """Raises NetworkSetupFailed, and ServiceUnavailable for a switch that does not answer."""

    def __init__(self, owner: str, *, ovs_database: str | None = None) -> None:
        self.owner = owner
        self._ovs = OpenVSwitch(ovs_database, owner)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="plumbing")

    async def close(self) -> None:
        """End the threads."""
        await asyncio.to_thread(self._threads.shutdown)

    async def userspace(self, bridge: str) -> bool:
        """Does the Open vSwitch bridge switch in user space?"""
        return bool(await _installed(self._ovs.userspace(bridge)))

    async def prepare(self, vif: Vif) -> bool:
        """The pair is made and its host's end is on the switch; the container's end waits. True when it is new."""
        if vif.switch != "ovs":
            return bool(await self._in_thread(vif, links.make_pair_on_bridge, vif))
        made = await self._in_thread(vif, links.make_pair, vif)
        await _installed(self._ovs.attach(vif, anew=made))
        return made

    async def connect(self, vifs: Sequence[Vif], namespace: int, former: int | None = None) -> Sequence[str]:
        """All interfaces are in ``namespace`` (a file descriptor): ``eth0``, ``eth1``, … in this order. Ends that died
        with a namespace are made anew; the ports of those are returned."""
        anew = []
        for number, vif in enumerate(vifs):
            try:
                await self._in_thread(vif, ends.connect, vif, f"eth{number}", namespace, former)
            except ends.EndLost:
                anew.append(vif.port_id)
                LOG.info("action=plug container=%s port=%s result=made anew", vif.container, vif.port_id)
                await self._in_thread(vif, links.remove_pair, vif.tap)
                await self.prepare(vif)
                await self._in_thread(vif, ends.connect, vif, f"eth{number}", namespace, None)
        return anew

    async def names(self, vifs: Sequence[Vif], namespace: int) -> Sequence[str]:
        """Their devices' names in ``namespace``, in order; empty for one that is not there."""
        there = await self._in_thread(vifs[0], ends.present, namespace) if vifs else {}
        return [there.get(vif.port_id, "") for vif in vifs]

    async def problems(self, vifs: Sequence[Vif], namespace: int) -> Sequence[str]:
        """What of the interfaces is not as it was plugged, a few words each."""
        found = [text for vif in vifs for text in await self._in_thread(vif, audit.problems, vif, namespace)]
        switched = [vif for vif in vifs if vif.switch == "ovs"]
        if switched:
            ports = {port.name for port in await self._ovs.ports(switched[0].container)}
            found += [f"{vif.tap} is not a port of Open vSwitch" for vif in switched if vif.tap not in ports]
        return found

    async def take_out(self, vifs: Sequence[Vif], namespace: int) -> None:
        """The ends wait on the host again, so that they outlive the namespace."""
        if vifs:
            await self._in_thread(vifs[0], ends.take_out, [(vif.port_id, vif.spare) for vif in vifs], namespace)

    async def remove(self, container: str, vifs: Sequence[Vif] = ()) -> None:
        """Everything of the container, found by its marks, and what was to be made for ``vifs``, its interfaces where
        they are known: a death may have come between a device and its mark. Nothing there is success; without root's
        rights nothing can be: the API gives ports back of a host that is lost."""
        if os.geteuid():
            return
        if vifs and all(vif.switch == "bridge" for vif in vifs):
            ports: Sequence[OvsPort] = ()  # a command less
            taps = await self._taps()
        else:
            ports, taps = await asyncio.gather(self._ovs.ports(container), self._taps())
        known = {vif.tap for vif in vifs} | {tap.name for tap in taps if tap.container == container}
        await self._drop({port.name for port in ports}, known)

    async def remove_all(self, vifs: Sequence[Vif]) -> None:
        """These interfaces, and nothing is looked for. Gone is success."""
        await self._drop([vif.tap for vif in vifs if vif.switch == "ovs"], [vif.tap for vif in vifs])

    async def remove_port(self, port_id: str) -> None:
        """Everything of one port."""
        ports, taps = await asyncio.gather(self._ovs.ports(), self._taps())
        on_switch = {port.name for port in ports if port.port_id == port_id}
        await self._drop(on_switch, {tap_of(port_id)} & {tap.name for tap in taps})

    async def containers(self) -> frozenset[str]:
        """Containers of which anything of ours is on this machine."""
        ports, taps = await asyncio.gather(self._ovs.ports(), self._taps())
        return frozenset({port.container for port in ports} | {tap.container for tap in taps})

    async def devices(self) -> frozenset[str]:
        """Names of our host's ends that are there."""
        return frozenset(tap.name for tap in await self._taps())

    async def _taps(self) -> Sequence[links.Tap]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, links.taps, self.owner)

    async def _drop(self, on_switch: Iterable[str], devices: Iterable[str]) -> None:
        await self._ovs.detach(sorted(on_switch))
        loop = asyncio.get_running_loop()
        for device in sorted(devices):
            await loop.run_in_executor(self._threads, links.remove_pair, device)

    async def _in_thread(self, vif: Vif, work: Callable[..., T], *arguments: Any) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
        except (NetlinkError, OSError) as error:
            text = error.args[-1] if error.args else error
            raise NetworkSetupFailed(f"Port {vif.port_id} could not be plugged on this host: {text}.") from error


async def _installed(call: Any) -> Any:
    try:
        return await call
    except FileNotFoundError as error:
        raise NetworkSetupFailed("The port is bound to Open vSwitch, and ovs-vsctl is not on this host.") from error
