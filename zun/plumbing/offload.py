"""Checksum offload of a network device, by the kernel's ethtool call."""

from __future__ import annotations

import array
import fcntl
import socket
import struct

_SIOCETHTOOL = 0x8946
_ETHTOOL_STXCSUM = 0x17


def tx_checksum_off(device: str) -> None:
    """The kernel computes TCP and UDP checksums of what ``device`` sends itself. Lasts when the device changes its
    namespace. Raises OSError."""
    value = array.array("B", struct.pack("=II", _ETHTOOL_STXCSUM, 0))
    address, _ = value.buffer_info()
    request = struct.pack("@16sP16x", device.encode(), address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as handle:
        fcntl.ioctl(handle, _SIOCETHTOOL, request)
