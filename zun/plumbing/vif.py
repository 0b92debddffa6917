"""One interface of a container, as it is to be plugged. Pure data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_PREFIX = 11
"""Characters of the port's id in a device name: Neutron's agents look for ``tap`` and so many."""


@dataclass(frozen=True, slots=True)
class Route:
    """``destination`` in CIDR form (``0.0.0.0/0`` and ``::/0``: the default route)."""

    destination: str
    gateway: str


@dataclass(frozen=True, slots=True)
class Vif:
    """``owner`` and ``container`` mark what is made, so that it is recognised when every record is gone."""

    port_id: str
    container: str
    owner: str
    mac: str
    mtu: int
    switch: str
    """``ovs`` or ``bridge``."""
    bridge: str
    addresses: Sequence[str] = ()
    """With prefix length: ``10.0.0.5/24``, ``fd00::5/64``."""
    routes: Sequence[Route] = ()
    checksum_offload: bool = True
    """False behind a datapath in user space: it passes frames on as they are, so the sender fills in checksums."""

    @property
    def tap(self) -> str:
        """The host's end."""
        return tap_of(self.port_id)

    @property
    def spare(self) -> str:
        """The container's end while no container has it."""
        return f"zun{self.port_id[:_PREFIX]}"

    @property
    def ipv6(self) -> bool:
        return any(":" in address for address in self.addresses)


def tap_of(port_id: str) -> str:
    """Name of the host's end of a port's pair."""
    return f"tap{port_id[:_PREFIX]}"
