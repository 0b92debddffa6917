"""Which subnet a new embedded network gets: inside the pool, clear of other networks and of the host's routes."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Iterable
from ipaddress import IPv4Network
from pathlib import Path

log = logging.getLogger(__name__)

_ROUTES = Path("/proc/net/route")


def parse_routes(text: str) -> list[IPv4Network]:
    """Destinations of ``/proc/net/route``, the default route left out. Addresses there are in host byte order."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8:
            continue
        destination, mask = (struct.pack("=I", int(fields[at], 16)) for at in (1, 7))
        if any(mask):
            found.append(IPv4Network((socket.inet_ntoa(destination), socket.inet_ntoa(mask)), strict=False))
    return found


def host_routes() -> list[IPv4Network]:
    """The host's IPv4 routes; none where the kernel does not show them."""
    try:
        return parse_routes(_ROUTES.read_text())
    except OSError as error:
        log.warning("action=read-routes result=failed reason=%r", str(error))
        return []


def first_free(pool: IPv4Network, prefix: int, taken: Iterable[IPv4Network]) -> IPv4Network | None:
    """The lowest subnet of the pool that overlaps nothing taken; one pass over the sorted list."""
    size = 1 << (32 - prefix)
    at, end = int(pool.network_address), int(pool.broadcast_address) + 1
    for network in sorted(taken, key=lambda one: int(one.network_address)):
        first, last = int(network.network_address), int(network.broadcast_address)
        if last < at:
            continue
        if first >= at + size:
            break
        at = -(-(last + 1) // size) * size  # up to the next border of a subnet
    return IPv4Network((at, prefix)) if at + size <= end else None
