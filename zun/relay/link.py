"""The TCP connection below a WebSocket: what the kernel and TLS hold of it, and whether the other side still has it."""

from __future__ import annotations

import contextlib
import socket

from websockets.asyncio.connection import Connection

BUFFER = 64 * 1024
"""Bytes that each is told to hold at most; the kernel counts its own housekeeping in, and doubles it."""

_ESTABLISHED = 1


def narrow(connection: Connection) -> None:
    """Keys are sent at once, and little is taken ahead of a side that reads nothing: left to itself the kernel holds
    megabytes of each connection, and TLS half a mebibyte."""
    link = connection.transport.get_extra_info("socket")
    with contextlib.suppress(OSError):  # it is closed already
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    limited = getattr(connection.transport, "set_read_buffer_limits", None)  # of TLS alone
    if limited is not None:
        limited(high=BUFFER)


def established(connection: Connection) -> bool:
    """Does the kernel know of no end of it? What the other side sent before it went may still wait to be read."""
    link = connection.transport.get_extra_info("socket")
    try:
        return bool(link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED)
    except OSError:  # it is closed
        return False
