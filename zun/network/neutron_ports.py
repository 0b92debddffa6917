"""A container's ports in Neutron, made and removed with our own rights; how they reach the container is not known here.

Ports are found by ``device_id``, so those of an agent that died are found again, also ones made twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from zun.domain.container import Container, RequestedNetwork
from zun.domain.errors import NetworkSetupFailed, SecurityGroupCannotBeApplied
from zun.domain.held import Held, moment
from zun.network.neutron_api import NeutronApi, Row, failure
from zun.network.neutron_facts import NetworkFacts, NeutronFacts
from zun.openstack.client import Refused
from zun.store import given_ports as store
from zun.store.database import Database

LOG = logging.getLogger(__name__)

OWNER = "compute:kuryr"
"""``device_owner`` of containers' ports where Kuryr plugs them; Kuryr sets the same one."""
OWNERS = (OWNER, "compute:zun")
"""Of ports of containers and of capsules, however they are plugged."""
_HOST = "binding:host_id"
_TRIES = 3
_CALL_ENDS = 15.0
"""Seconds that a call is given to end once its operation was called off."""


@dataclass(frozen=True, slots=True)
class BoundPort:
    """A port that is the container's, and what is needed to plug it."""

    port: Row
    """As Neutron shows it to administrators."""
    facts: NetworkFacts
    given: bool
    """The user's own: kept on delete."""

    @property
    def id(self) -> str:
        return str(self.port["id"])

    @property
    def network_id(self) -> str:
        return str(self.port["network_id"])


class NeutronPorts:
    """All methods are idempotent. Raises NetworkSetupFailed with Neutron's words, ServiceUnavailable naming Neutron."""

    def __init__(self, api: NeutronApi, db: Database, agent_host: str, owner: str = OWNER) -> None:
        self._api = api
        self._owner = owner
        self._db = db
        self._host = agent_host
        self._facts = NeutronFacts(api)

    async def ensure(
        self,
        container: Container,
        requested: Sequence[RequestedNetwork],
        *,
        late: Collection[str] = (),
        new: bool = False,
    ) -> Sequence[BoundPort]:
        """The container's ports, bound to this node, in the order asked (S1.21). Those on the networks ``late`` are
        bound by what plugs them, which may give them another MAC: Neutron lets only unbound ports change it. ``new``:
        none can be there, and none is looked for."""
        try:
            present, given = await asyncio.gather(
                _none() if new else self.of_container(container.uuid),
                self._api.by_id("ports", [one.port_id for one in requested if one.port_id]),
            )
            own, surplus = _own_ports(present, requested)
            lacking = [one for one in requested if not one.port_id and one.network_id not in own]
            facts, made, taken, _ = await all_of(
                all_of(*(self._facts.of(one.network_id) for one in requested)),
                self._make(container, lacking, late),
                self._take_all(container, given, requested, late),
                self._discard(surplus),
            )
            rebound = await all_of(*(self._rebind(port, late=network in late) for network, port in own.items()))
        except Refused as refusal:
            raise failure("a port", refusal) from refusal
        own = {port["network_id"]: port for port in (*rebound, *made)}
        return [
            await self._bound(taken[one.port_id] if one.port_id else own[one.network_id], fact, one)
            for one, fact in zip(requested, facts, strict=True)
        ]

    async def facts(self, network_id: str) -> NetworkFacts | None:
        """Network and subnets; None when there is no such network."""
        try:
            return await self._facts.of(network_id, fresh=True)
        except NetworkSetupFailed:
            return None

    async def of_container(self, container_uuid: str) -> Sequence[Row]:
        """Every port whose device is the container."""
        return await self._api.find("ports", device_id=container_uuid)

    async def all(self) -> Sequence[Held]:
        """Every port that a container service made or took; other deployments' too."""
        try:
            found = await self._api.find("ports", device_owner=OWNERS, fields=["id", "device_id", "created_at"])
        except Refused as refusal:
            raise failure("the list of ports", refusal) from refusal
        return [Held(port["id"], port["device_id"], moment(port.get("created_at"))) for port in found]

    async def release(self, container_uuid: str, *, after: Coroutine[Any, Any, None] | None = None) -> Sequence[str]:
        """Own ports are deleted, given ones are as they were (S3.5); the ids of all. None is success. ``after``: what
        has to be done before; ports are looked for meanwhile."""
        try:
            ports, given, _ = await all_of(
                self.of_container(container_uuid), self._given(container_uuid), after or _none()
            )
            strayed = await self._api.by_id("ports", sorted(set(given) - {port["id"] for port in ports}))
            held = (*ports, *strayed.values())
            await all_of(*(self._release(container_uuid, port, given.get(port["id"])) for port in held))
        except Refused as refusal:
            raise failure("to release a port", refusal) from refusal
        if given:
            async with self._db.write() as connection:
                await store.forget(connection, container_uuid)
        return [str(port["id"]) for port in held]

    @asynccontextmanager
    async def bound_as_they_are(self, container_uuid: str) -> AsyncIterator[Sequence[str]]:
        """Whoever changes the container's ports inside, they are bound as before at its end; their ids."""
        try:
            before = await self.of_container(container_uuid)
            yield [str(port["id"]) for port in before]
            now = await self._api.by_id("ports", [port["id"] for port in before])
            for port in before:
                kept = {name: port[name] for name in ("device_id", "device_owner", _HOST)}
                changed = now.get(port["id"])
                if changed is not None and any(changed[name] != value for name, value in kept.items()):
                    await self._restore(port["id"], kept)
        except Refused as refusal:
            raise failure("to keep a port", refusal) from refusal

    async def release_on(self, container_uuid: str, network_id: str) -> None:
        """The same for the container's ports on one network."""
        try:
            found, given = await asyncio.gather(
                self._api.find("ports", device_id=container_uuid, network_id=network_id), self._given(container_uuid)
            )
            await all_of(*(self._release(container_uuid, port, given.get(port["id"])) for port in found))
        except Refused as refusal:
            raise failure("to release a port", refusal) from refusal
        for port in found:
            if port["id"] in given:
                async with self._db.write() as connection:
                    await store.forget(connection, container_uuid, port["id"])

    async def change_security_groups(self, container_uuid: str, add: Sequence[str], remove: Sequence[str]) -> None:
        """Every port gets and loses these groups. Raises SecurityGroupCannotBeApplied when one takes none."""
        try:
            ports = await self.of_container(container_uuid)
            for port in ports:
                if add and not port.get("port_security_enabled", True):
                    raise SecurityGroupCannotBeApplied(f"Port {port['id']} takes no security groups.")
            await all_of(*(self._regroup(port, add, remove) for port in ports))
        except Refused as refusal:
            raise failure("the security groups", refusal) from refusal

    async def _regroup(self, port: Row, add: Sequence[str], remove: Sequence[str]) -> None:
        before = list(port["security_groups"])
        after = [group for group in dict.fromkeys([*before, *add]) if group not in remove]
        if after != before:
            await self._api.update("ports", port["id"], {"security_groups": after})

    # -- own ports -----------------------------------------------------------------------------------

    async def _make(
        self, container: Container, requested: Sequence[RequestedNetwork], late: Collection[str]
    ) -> list[Row]:
        """One call for all: Neutron makes every one of them or none. An operation called off waits for the call's
        end: what it makes has to be there when the release that follows looks for it."""
        if not requested:
            return []
        bodies = [self._body(container, one) for one in requested]
        for body in bodies:
            if body["network_id"] in late:
                del body[_HOST]
        making = asyncio.ensure_future(self._api.create("ports", bodies))
        try:
            ports = await asyncio.shield(making)
        except asyncio.CancelledError:
            await asyncio.wait({making}, timeout=_CALL_ENDS)
            making.cancel()
            await asyncio.gather(making, return_exceptions=True)
            raise
        LOG.info("action=ports container=%s made=%s", container.uuid, ",".join(port["id"] for port in ports))
        return ports

    def _body(self, container: Container, one: RequestedNetwork) -> dict[str, Any]:
        body: dict[str, Any] = {
            "project_id": container.project_id,
            "network_id": one.network_id,
            "device_id": container.uuid,
            "device_owner": self._owner,
            _HOST: self._host,
        }
        if addresses := [{"ip_address": address} for address in (one.v4_fixed_ip, one.v6_fixed_ip) if address]:
            body["fixed_ips"] = addresses
        if container.security_groups:
            body["security_groups"] = list(container.security_groups)
        return body

    async def _rebind(self, port: Row, *, late: bool) -> Row:
        """A port found again: its binding may have gone with an engine container (Kuryr takes it back), or a late one's
        may be left over from when it was plugged."""
        values = {"device_owner": self._owner, _HOST: self._host}
        if late:
            values = {_HOST: ""} if self._is_left_over(port) else {}
        if all(port[name] == value for name, value in values.items()):
            return port
        return await self._api.update("ports", port["id"], values)

    def _is_left_over(self, port: Row) -> bool:
        """Is its binding of a plug that is no more: here, or on a host that the container has left?"""
        return bool(port["status"] != "ACTIVE" or port[_HOST] not in ("", self._host))

    async def _discard(self, surplus: Sequence[Row]) -> None:
        """Ports made twice, by a call whose answer was lost."""
        for port in surplus:
            LOG.warning("action=ports container=%s discarded=%s", port["device_id"], port["id"])
        await all_of(*(self._api.delete("ports", port["id"]) for port in surplus))

    # -- given ports ---------------------------------------------------------------------------------

    async def _take_all(
        self,
        container: Container,
        found: Mapping[str, Row],
        requested: Sequence[RequestedNetwork],
        late: Collection[str],
    ) -> dict[str, Row]:
        idents = [one.port_id for one in requested if one.port_id]
        for ident in idents:
            if ident not in found:
                raise NetworkSetupFailed(f"Port {ident} does not exist any more.")
        ports = [found[ident] for ident in idents]
        taken = await all_of(*(self._take(container.uuid, port, late=port["network_id"] in late) for port in ports))
        return dict(zip(idents, taken, strict=True))

    async def _take(self, container_uuid: str, port: Row, *, late: bool) -> Row:
        """What the port was is written down before it changes; another taker is noticed by the port's revision."""
        for _ in range(_TRIES):
            if port["device_id"] not in ("", container_uuid):
                raise NetworkSetupFailed(f"Port {port['id']} is in use by another device.")
            values = {"device_id": container_uuid, "device_owner": self._owner}
            if not late:
                values[_HOST] = self._host
            elif self._is_left_over(port):
                values[_HOST] = ""
            if all(port[name] == value for name, value in values.items()):
                return port
            if not port["device_id"]:
                await self._claim(container_uuid, port)
            try:
                return await self._api.update("ports", port["id"], values, revision=port.get("revision_number"))
            except Refused as refusal:
                if refusal.status != 412:
                    raise
            found = await self._api.by_id("ports", [port["id"]])
            if port["id"] not in found:
                raise NetworkSetupFailed(f"Port {port['id']} does not exist any more.")
            port = found[port["id"]]
        raise NetworkSetupFailed(f"Port {port['id']} is changed by others all the time.")

    async def _claim(self, container_uuid: str, port: Row) -> None:
        """Neutron's revision alone lets two takers of the same moment pass."""
        before = store.Before(port["device_owner"], port[_HOST], port["mac_address"])
        try:
            async with self._db.write() as connection:
                await store.remember(connection, container_uuid, port["id"], before)
        except sa.exc.IntegrityError as error:
            raise NetworkSetupFailed(f"Port {port['id']} is in use by another device.") from error

    async def _release(self, container_uuid: str, port: Row, before: store.Before | None) -> None:
        if before is None:
            await self._api.delete("ports", port["id"])
        elif port["device_id"] in ("", container_uuid):  # else it is somebody else's by now
            values = {"device_id": "", "device_owner": before.device_owner, _HOST: before.host_id}
            if port["mac_address"] != before.mac:
                await self._restore(port["id"], {_HOST: ""})
                values["mac_address"] = before.mac
            if any(port[name] != value for name, value in values.items()):
                await self._restore(port["id"], values)

    async def _restore(self, port_id: str, values: Row) -> None:
        try:
            await self._api.update("ports", port_id, values)
        except Refused as refusal:
            if refusal.status != 404:  # the user deleted it meanwhile
                raise

    async def _given(self, container_uuid: str) -> Mapping[str, store.Before]:
        async with self._db.read() as connection:
            return await store.of_container(connection, container_uuid)

    # -- both ----------------------------------------------------------------------------------------

    async def _bound(self, port: Row, facts: NetworkFacts, one: RequestedNetwork) -> BoundPort:
        if port.get("binding:vif_type") == "binding_failed":
            raise NetworkSetupFailed(
                f"Neutron could not bind port {port['id']} on host {self._host}; is its agent alive, and"
                " [neutron]/agent_host its name?"
            )
        if not port["fixed_ips"]:
            raise NetworkSetupFailed(f"Port {port['id']} has no address.")
        if any(ip["subnet_id"] not in facts.subnets for ip in port["fixed_ips"]):
            facts = await self._facts.of(port["network_id"], fresh=True)
        return BoundPort(port, facts, given=bool(one.port_id))


def _own_ports(present: Sequence[Row], requested: Sequence[RequestedNetwork]) -> tuple[dict[str, Row], Sequence[Row]]:
    """The oldest port on each network asked for that has the addresses asked for, and the others there."""
    own: dict[str, Row] = {}
    surplus = []
    given = {one.port_id for one in requested}
    wanted = {one.network_id: one for one in requested if not one.port_id}
    for port in sorted(present, key=lambda port: (port.get("created_at") or "", port["id"])):
        one = wanted.get(port["network_id"])
        if one is None or port["id"] in given:
            continue
        held = {ip["ip_address"] for ip in port["fixed_ips"]}
        fits = all(address in held for address in (one.v4_fixed_ip, one.v6_fixed_ip) if address)
        if fits and port["network_id"] not in own:
            own[port["network_id"]] = port
        else:
            surplus.append(port)
    return own, surplus


async def _none() -> Sequence[Row]:
    return ()


async def all_of(*calls: Coroutine[Any, Any, Any]) -> list[Any]:
    """Side by side; every call has ended before the first fault is raised."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results
