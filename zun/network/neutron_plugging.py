"""Neutron's ports on this node's switch: what the node's plumber is told to make of them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from zun.network.direct_vifs import Binding, binding_of, vifs_of
from zun.network.neutron_ports import BoundPort
from zun.plumbing.plumber import Plumber
from zun.plumbing.vif import Vif


async def vifs_on(plumber: Plumber, container_uuid: str, bound: Sequence[BoundPort]) -> list[Vif]:
    """The interfaces, in order. Raises NetworkSetupFailed, ServiceUnavailable."""
    bindings = await asyncio.gather(*(_binding(plumber, port) for port in bound))
    return vifs_of(container_uuid, plumber.owner, list(zip(bound, bindings, strict=True)))


async def prepare(plumber: Plumber, vifs: Sequence[Vif]) -> Collection[str]:
    """The hosts' ends are on the switch, so that Neutron's agent works while the engine does; ids of the ports whose
    pairs had to be made."""
    made = await asyncio.gather(*(plumber.prepare(vif) for vif in vifs))
    return [vif.port_id for vif, new in zip(vifs, made, strict=True) if new]


async def _binding(plumber: Plumber, bound: BoundPort) -> Binding:
    found = binding_of(bound.port)
    if found.userspace is None:
        return Binding(found.switch, found.bridge, await plumber.userspace(found.bridge))
    return found
