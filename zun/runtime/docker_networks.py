"""Docker networks of the product: made once under any concurrency, labelled, joined by containers."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from ipaddress import ip_network
from typing import Any
from weakref import WeakValueDictionary

from zun.domain.errors import EngineConflict, EngineError, EngineNotFound, EngineUnreachable
from zun.domain.observed import Attachment
from zun.runtime.docker_client import DockerClient, segment
from zun.runtime.docker_spec import Interface, WantedNetwork, endpoint, interfaces, network_body, wanted_networks

LOG = logging.getLogger(__name__)

NETWORK_LABEL = "org.openstack.zun.network"
NONE = "none"
"""The engine's own network of containers without any."""

_REMEMBERED = 4096
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds between looks for a network that another process seems to make."""

_TAKEN = ("overlaps", "already exists")
_GONE = re.compile(r"network (\S+) not found")


class DockerNetworks:
    """The engine's networks."""

    def __init__(self, client: DockerClient) -> None:
        self._client = client
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._known: dict[str, WantedNetwork] = {}

    async def ensure(self, network: WantedNetwork) -> None:
        """The network exists with all its subnets. Idempotent, also against other processes. Raises EngineConflict
        when one of that name has other subnets."""
        self._remember(network)
        lock = self._locks.setdefault(network.name, asyncio.Lock())
        async with lock:
            if await self._present(network):
                return
            if not await self._make(network):
                return
            await self._settle_twins(network.name)
        LOG.info("action=network_create network=%s", network.name)

    async def restore(self, text: str) -> bool:
        """Make the network anew that ``text``, a refusal of the engine, misses; False when it is none of ours.

        Engines up to API 1.41 notice a network that is gone when the container starts, not when it is made.
        """
        found = _GONE.search(text)
        network = self._known.get(found[1]) if found else None
        if network is None:
            return False
        LOG.warning("action=network_restore network=%s", network.name)
        await self.ensure(network)
        return True

    async def remove(self, name: str) -> None:
        """Gone or never there is success; EngineConflict while containers, also stopped ones, belong to it."""
        params = {"all": "1", "filters": json.dumps({"network": [name]})}
        try:
            members = await self._client.call("GET", "containers/json", params=params)
            if members:
                raise EngineConflict(f"network {name} has {len(members)} containers")
            await self._client.call("DELETE", f"networks/{segment(name)}", plugs=True)
        except EngineNotFound:
            return

    async def names(self, prefix: str) -> Sequence[str]:
        """Names that begin with ``prefix``, sorted."""
        rows = await self._rows(prefix)
        return sorted(row["Name"] for row in rows if row["Name"].startswith(prefix))

    async def connect(self, container: str, interface: Interface) -> None:
        """Join; being joined already is success."""
        body = {"Container": container, "EndpointConfig": endpoint(interface)}
        try:
            path = f"networks/{segment(interface.network)}/connect"
            await self._client.call("POST", path, body=body, plugs=True)
        except EngineError as error:
            if "already exists in network" not in error.text:
                raise

    async def join(self, container: str, joined: Collection[str], attachments: Sequence[Attachment]) -> None:
        """Join the networks of ``attachments``, made first; ``joined`` names those the container is on."""
        for network in wanted_networks(attachments):
            await self.ensure(network)
        if NONE in joined:
            await self.disconnect(container, NONE)
        tried: list[str] = []
        try:
            for interface in interfaces(attachments):
                if interface.network not in joined:
                    tried.append(interface.network)
                    await self.connect(container, interface)
        except EngineError:
            for name in tried:  # a refused endpoint stays in the container's record, and fails its next start
                await self.disconnect(container, name)
            if NONE in joined:
                await self._stay_out(container)
            raise

    async def leave(self, container: str, joined: Collection[str], name: str) -> None:
        """Leave a network. A container on none at all would be put on the one it was made with at its next start: it
        joins the engine's network ``none``."""
        if name in joined:
            await self.disconnect(container, name)
        if not set(joined) - {name}:
            await self._stay_out(container)

    async def _stay_out(self, container: str) -> None:
        try:
            await self.connect(container, Interface(NONE))
        except EngineError as error:  # it is on another network by now
            if "private (none) mode" not in error.text:
                raise

    async def disconnect(self, container: str, name: str) -> None:
        """Leave; not being joined is success. A network that is gone leaves its endpoint in the container: that goes
        by force."""
        path = f"networks/{segment(name)}/disconnect"
        body: dict[str, Any] = {"Container": container, "Force": False}
        try:
            try:
                await self._client.call("POST", path, body=body, plugs=True)
            except EngineNotFound:
                await self._client.call("POST", path, body={**body, "Force": True}, plugs=True)
        except EngineError as error:
            if "is not connected to" not in error.text:
                raise

    async def _make(self, network: WantedNetwork) -> bool:
        """True when made, False when another process was faster. Its subnet is taken a moment before it can be
        seen, so a refusal is believed only after a while."""
        body = network_body(network, NETWORK_LABEL)
        for pause in (*_PAUSES, None):
            try:
                await self._client.call("POST", "networks/create", body=body, plugs=True)
                return True
            except EngineUnreachable:
                raise
            except EngineError as error:
                if await self._present(network):
                    return False
                if pause is None or not any(words in error.text for words in _TAKEN):
                    raise
            await asyncio.sleep(pause)
        raise AssertionError("the last try raises or returns")

    def _remember(self, network: WantedNetwork) -> None:
        before = self._known.pop(network.name, network)
        self._known[network.name] = before if set(network.subnets) < set(before.subnets) else network
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

    async def _present(self, network: WantedNetwork) -> bool:
        try:
            facts = await self._client.call("GET", f"networks/{segment(network.name)}")
        except EngineNotFound:
            return False
        except EngineError as error:
            if "is ambiguous" not in error.text:
                raise
            await self._settle_twins(network.name)
            facts = await self._client.call("GET", f"networks/{segment(network.name)}")
        if facts["Name"] != network.name:  # the engine also takes the beginning of an id
            return False
        missing = [subnet for subnet, _ in network.subnets if ip_network(subnet, strict=False) not in _subnets(facts)]
        if missing:
            raise EngineConflict(f"network {network.name} exists without the subnet {missing[0]}")
        return True

    async def _settle_twins(self, name: str) -> None:
        """Docker permits several networks of one name when they are made in the same moment. Every maker looks once
        its own can be seen, so the last one sees all: the oldest stays, or the one that already has containers."""
        rows = [row for row in await self._rows(name) if row["Name"] == name and NETWORK_LABEL in (row["Labels"] or {})]
        if len(rows) < 2:
            return
        kept, *others = sorted(rows, key=lambda row: (row["Created"], row["Id"]))
        for other in others:
            for victim in (other, kept):
                try:
                    await self._client.call("DELETE", f"networks/{victim['Id']}")
                except EngineNotFound:
                    LOG.debug("action=network_twin network=%s result=gone", name)
                except EngineConflict:
                    continue  # it has containers: the other one goes
                kept = kept if victim is other else other
                break

    async def _rows(self, part: str) -> Sequence[Mapping[str, Any]]:
        params = {"filters": json.dumps({"name": [part]})} if part else {}
        rows: Sequence[Mapping[str, Any]] = await self._client.call("GET", "networks", params=params)
        return rows


def _subnets(facts: Mapping[str, Any]) -> set[Any]:
    rows = (facts.get("IPAM") or {}).get("Config") or ()
    return {ip_network(row["Subnet"], strict=False) for row in rows if row.get("Subnet")}
