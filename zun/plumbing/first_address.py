"""A device's first IPv4 address, by the kernel's own calls of old: without netlink, on the way of each capsule."""

from __future__ import annotations

import fcntl
import socket
import struct
from ipaddress import IPv4Interface

_SIOCGIFADDR = 0x8915
_SIOCGIFNETMASK = 0x891B
_REQUEST = struct.Struct("16s4x4s16x")
"""``struct ifreq``: a name; family, port and address of a ``sockaddr_in``."""


def first_address(device: str) -> IPv4Interface:
    """Raises OSError: ENODEV without the device, EADDRNOTAVAIL without an address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as handle:
        address, mask = (_asked(handle, call, device) for call in (_SIOCGIFADDR, _SIOCGIFNETMASK))
    return IPv4Interface(f"{address}/{mask}")


def _asked(handle: socket.socket, call: int, device: str) -> str:
    given = _REQUEST.pack(device.encode(), b"")
    return socket.inet_ntoa(_REQUEST.unpack(fcntl.ioctl(handle, call, given))[1])
