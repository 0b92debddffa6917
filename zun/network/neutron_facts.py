"""What ports need to know of their networks: kept for some seconds, so that many containers at once ask once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from zun.domain.errors import NetworkSetupFailed
from zun.network.neutron_api import NeutronApi, Row

_SECONDS = 10.0
_REMEMBERED = 1024


@dataclass(frozen=True, slots=True)
class NetworkFacts:
    """A network and all its subnets, by id, the oldest first."""

    network: Row
    subnets: Mapping[str, Row]


class NeutronFacts:
    """Single-flight; a failure is not kept."""

    def __init__(self, api: NeutronApi) -> None:
        self._api = api
        self._flights: dict[str, tuple[float, asyncio.Task[NetworkFacts]]] = {}

    async def of(self, network_id: str, *, fresh: bool = False) -> NetworkFacts:
        """Raises NetworkSetupFailed when there is no such network."""
        now = asyncio.get_running_loop().time()
        begun, flight = self._flights.get(network_id, (0.0, None))
        if flight is None or (flight.done() and (fresh or now - begun > _SECONDS or _failed(flight))):
            flight = asyncio.create_task(self._read(network_id), name=f"neutron-facts-{network_id}")
            flight.add_done_callback(_failed)  # seen here: nobody may be waiting any more
            self._flights.pop(network_id, None)
            self._flights[network_id] = (now, flight)
            if len(self._flights) > _REMEMBERED:
                del self._flights[next(iter(self._flights))]
        return await asyncio.shield(flight)  # one who leaves does not end it for the others

    async def _read(self, network_id: str) -> NetworkFacts:
        networks, subnets = await asyncio.gather(
            self._api.by_id("networks", [network_id]), self._api.find("subnets", network_id=network_id)
        )
        if network_id not in networks:
            raise NetworkSetupFailed(f"Network {network_id} does not exist any more.")
        rows = sorted(subnets, key=lambda row: (row.get("created_at") or "", row["id"]))
        return NetworkFacts(networks[network_id], {row["id"]: row for row in rows})


def _failed(flight: asyncio.Task[NetworkFacts]) -> bool:
    return flight.cancelled() or flight.exception() is not None
