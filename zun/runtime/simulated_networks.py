"""The simulated engine's networks: names, and which containers are on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from zun.domain.errors import EngineConflict, EngineNotFound
from zun.domain.observed import Attachment, EngineNetwork, EngineSpec
from zun.runtime.simulated_faults import Faults, faulty


class _OnNetworks(Protocol):
    spec: EngineSpec


class SimulatedNetworks:
    """The part of ``SimulatedRuntime`` that is about networks."""

    faults: Faults
    networks: dict[str, EngineNetwork]
    _containers: Mapping[str, _OnNetworks]

    @faulty
    async def ensure_network(self, network: EngineNetwork) -> None:
        old = self.networks.setdefault(network.name, network)
        if network.subnet and old.subnet != network.subnet:
            raise EngineConflict(f"network {network.name} exists without the subnet {network.subnet}")

    @faulty
    async def remove_network(self, name: str) -> None:
        if any(name in self.joined(uuid) for uuid in self._containers):
            raise EngineConflict(f"network {name} has containers")
        self.networks.pop(name, None)

    @faulty
    async def connect_network(self, uuid: str, attachments: Sequence[Attachment]) -> None:
        sim, joined = self._on_networks(uuid), self.joined(uuid)
        for attachment in attachments:
            self.networks.setdefault(attachment.engine_network.name, attachment.engine_network)
        added = [one for one in attachments if one.engine_network.name not in joined]
        sim.spec = replace(sim.spec, attachments=(*sim.spec.attachments, *added))

    @faulty
    async def disconnect_network(self, uuid: str, name: str) -> None:
        sim = self._on_networks(uuid)
        stay = tuple(one for one in sim.spec.attachments if one.engine_network.name != name)
        sim.spec = replace(sim.spec, attachments=stay)

    @faulty
    async def list_networks(self, prefix: str) -> Sequence[str]:
        return sorted(name for name in self.networks if name.startswith(prefix))

    def joined(self, uuid: str) -> Sequence[str]:
        """Names of the networks a container is on, in order."""
        attachments = self._on_networks(uuid).spec.attachments
        return list(dict.fromkeys(one.engine_network.name for one in attachments))

    def _on_networks(self, uuid: str) -> _OnNetworks:
        if uuid not in self._containers:
            raise EngineNotFound(f"No such container: zun-{uuid}")
        return self._containers[uuid]
