"""What systemd is told: that a service is ready, well, or stopping (sd_notify). Elsewhere nothing happens."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Sequence

from zun.domain.vitals import Vitals

LOG = logging.getLogger(__name__)

_BEAT_SECONDS = 5.0
_LOOP_STANDS_SECONDS = 60.0
"""Longer than an overloaded machine keeps a process waiting."""


def notify(state: str) -> None:
    """Send ``READY=1``, ``WATCHDOG=1`` or ``STOPPING=1`` to the socket that systemd named, if any."""
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


def watchdog_seconds() -> float | None:
    """How long systemd waits for a ``WATCHDOG=1`` before it starts this process anew (``WatchdogSec=``); None: it does
    not watch."""
    given, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", str(os.getpid()))
    if not given.isdecimal() or not int(given) or pid != str(os.getpid()):
        return None
    return int(given) / 1e6


async def watch(vitals: Vitals) -> None:
    """Until cancelled, tell systemd that the process is well, as long as its loops say so."""
    limit = watchdog_seconds()
    pause = min(_BEAT_SECONDS, limit / 3 if limit else _BEAT_SECONDS)
    told: Sequence[str] = []
    while True:
        vitals.beat("event-loop", _LOOP_STANDS_SECONDS)
        silent = vitals.silent()
        if silent != told:
            LOG.error(
                "action=health result=%s loops=%s", "unwell" if silent else "well again", ",".join(silent or told)
            )
            told = silent
        if limit and not silent:
            notify("WATCHDOG=1")
        await asyncio.sleep(pause)
