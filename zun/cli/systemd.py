"""What systemd is told: that a service is ready, and that it is stopping (sd_notify). Elsewhere nothing happens."""

from __future__ import annotations

import logging
import os
import socket

LOG = logging.getLogger(__name__)


def notify(state: str) -> None:
    """Send ``READY=1`` or ``STOPPING=1`` to the socket that systemd named; without one this is nothing."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # Linux's abstract namespace
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.connect(address)
            sender.sendall(state.encode())
    except OSError as error:
        LOG.warning("action=notify state=%s result=failed reason=%s", state, error)
