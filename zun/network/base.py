"""The network port. The API resolves names with the caller's rights; the node makes and removes ports."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from zun.domain.caller import Caller
from zun.domain.container import Container, RequestedNetwork
from zun.domain.held import Held
from zun.domain.observed import Attachment


class Network(Protocol):
    """All methods are idempotent coroutines; Unavailable when the service does not answer."""

    plugs: bool
    """Are interfaces plugged by the node, at each start, and not by the engine? Else the five methods that say
    "where the node plugs" have nothing to do."""

    async def resolve(
        self, caller: Caller, nets: Sequence[Mapping[str, Any]], *, external: bool = False
    ) -> Sequence[RequestedNetwork]:
        """Entries as in the request (``network`` | ``port``, ``v4-fixed-ip``, ``v6-fixed-ip``) to ids, in order
        (S1.4). Empty: the project's default network. ``external``: the caller may use external networks that are not
        shared. Raises NetworkNotFound, ExternalNetworkAttachForbidden, PortNotFound, PortInUse, PortNotUsable,
        PortBindingFailed, Conflict (ambiguous name, or none available), InvalidValue (address outside the network,
        or taken)."""
        ...

    async def security_groups(self, caller: Caller, names: Sequence[str]) -> Sequence[str]:
        """Names or ids to ids. InvalidValue ``Security group <x> not found.``; Conflict when ambiguous."""
        ...

    async def expose(self, container: Container) -> Sequence[str] | None:
        """On the node: the security group that opens ``exposed_ports``, made or found, to be the only one of the ports
        made after it; None where nothing is exposed or ports have no groups. ``release_ports`` removes it (S3.6)."""
        ...

    async def port_id(self, caller: Caller, ident: str) -> str:
        """Id of a port given by id or name, whatever uses it. Raises PortNotFound, Conflict (ambiguous name)."""
        ...

    async def ensure_ports(
        self, container: Container, requested: Sequence[RequestedNetwork], *, new: bool = False
    ) -> Sequence[Attachment]:
        """On the node: the container's ports, made or found by device id, in the order asked (S1.21). ``new``: nobody
        has tried before, so that none is looked for."""
        ...

    async def close(self) -> None:
        """Let go of what the process holds."""
        ...

    def knows(self, container_uuid: str) -> bool:
        """Where the node plugs: is it known what belongs to the container? ``ensure_ports`` makes it so."""
        ...

    async def plug(self, container_uuid: str, namespace: int) -> None:
        """Where the node plugs: the container's interfaces are in this network namespace (a file descriptor, the
        caller's), in order, with addresses and routes. Raises NetworkSetupFailed."""
        ...

    async def usable(self, container_uuid: str, seconds: float | None = None) -> None:
        """Where the node plugs: wait until packets pass all its ports. Raises NetworkSetupFailed naming those that did
        not come up in so many seconds (None: as configured)."""
        ...

    def leaving(self, container_uuid: str) -> AbstractAsyncContextManager[None]:
        """On the node: around the removal of an engine's container that is, or will be, another host's. Interfaces that
        are left here go; the ports stay, bound as they were."""
        ...

    async def ended(self, container_uuid: str) -> None:
        """Where the node plugs: the container's process ended; its interfaces answer nobody and are kept."""
        ...

    async def unplugged(self, container_uuids: Collection[str]) -> Collection[str]:
        """Where the node plugs: those of these running containers that are not known to have their interfaces."""
        ...

    async def release_ports(self, container_uuid: str, *, exposed: bool = True) -> None:
        """Delete own ports, give the user's back as they were, found by device id (S3.5); then the group of the exposed
        ports (S3.6), not looked for where it is known that none are ``exposed``. None is success."""
        ...

    async def attach(self, container: Container, requested: RequestedNetwork) -> Sequence[Attachment]:
        """On the node: one more network for a container that the engine has, running or not. Its port is made, or found
        by device id, then its interface is plugged in the adapter's own way; what is there already stays as it is.
        After a fault the caller calls ``detach``. Returns the attachments of this network. Raises NetworkSetupFailed,
        EngineError."""
        ...

    async def detach(self, container: Container, network_id: str) -> None:
        """On the node: unplug every interface on the network, then delete own ports and give the user's back as they
        were. Not attached, or no container in the engine any more, is success."""
        ...

    async def change_security_groups(
        self, container_uuid: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> None:
        """On the node: every port of the container, found by device id, gets or loses these groups (ids); its others
        stay. Raises SecurityGroupCannotBeApplied when a port takes none."""
        ...

    async def make_network(self, network_id: str) -> str:
        """On the node: the engine's network for ``network_id``, made ahead of its first port; its name in the engine
        (``network_id`` where the engine needs none). Raises NetworkNotFound."""
        ...

    async def remove_network(self, network_id: str) -> bool:
        """On the node: remove the engine's network for ``network_id``; was there one? Raises Conflict while containers
        are on it."""
        ...

    async def collect_idle(self) -> None:
        """Remove engine networks nobody uses any more; called by the node's sync."""
        ...

    async def ports(self) -> Sequence[Held]:
        """From anywhere: all ports of containers, of capsules too; ``release_ports`` gives them back."""
        ...

    async def groups(self) -> Sequence[Held]:
        """The same of the security groups that ``expose`` made."""
        ...

    async def plugged(self) -> Collection[str]:
        """Where the node plugs: containers of which this machine has devices or interface data of ours."""
        ...

    async def unplug(self, container_uuid: str) -> None:
        """Where the node plugs: those are gone; the ports stay. None is success."""
        ...


class PodNetwork(Protocol):
    """What capsules need of their network on the node; ``Network`` has it all. Which one: ``[DEFAULT]/capsule_driver``.
    All methods are idempotent coroutines; Unavailable when the service does not answer."""

    async def expose(self, container: Container) -> Sequence[str] | None:
        """As ``Network.expose``; the capsule's row with all its members' ``exposed_ports``."""
        ...

    async def ensure_ports(
        self, container: Container, requested: Sequence[RequestedNetwork], *, new: bool = False
    ) -> Sequence[Attachment]:
        """As ``Network.ensure_ports``. With a CNI plug-in: the interface data is stored as well (S2.7), so that the
        sandbox can be made once this has returned. Repeating it leaves a running sandbox as it is."""
        ...

    async def release_ports(self, container_uuid: str, *, exposed: bool = True) -> None:
        """As ``Network.release_ports``; interfaces and stored data go too, whatever the engine did before."""
        ...

    async def collect_idle(self) -> None:
        """As ``Network.collect_idle``."""
        ...

    async def plugged(self) -> Collection[str]:
        """As ``Network.plugged``."""
        ...

    async def unplug(self, container_uuid: str) -> None:
        """As ``Network.unplug``."""
        ...

    async def close(self) -> None: ...
