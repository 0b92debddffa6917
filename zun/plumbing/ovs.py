"""Open vSwitch, by its own command: one transaction a call, so that nothing is ever half done."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zun.domain.errors import NetworkSetupFailed, ServiceUnavailable
from zun.plumbing.vif import Vif

LOG = logging.getLogger(__name__)

SERVICE = "Open vSwitch"
_USUAL = "tcp:127.0.0.1:6640"
_SECONDS = 10
_THERE = "already exists"
"""Of a port that is on a bridge already."""
_BUSY = 4
"""Commands at once; each is a process."""


@dataclass(frozen=True, slots=True)
class OvsPort:
    """A port of the switch that we made."""

    name: str
    container: str
    port_id: str


class OpenVSwitch:
    """``database``: its address as ``ovs-vsctl --db`` takes it. None: the command's own default, else where Neutron's
    agent and os-vif expect it. Methods raise
    ServiceUnavailable when the switch does not answer, NetworkSetupFailed when it refuses."""

    def __init__(self, database: str | None, owner: str) -> None:
        self._database = database
        self._owner = owner
        self._slots = asyncio.Semaphore(_BUSY)

    async def attach(self, vif: Vif, *, anew: bool) -> None:
        """The host's end is a port of the bridge, marked as Neutron's agent and OVN look for it. ``anew``: the device
        was just made; a port left from a former one of that name goes first, or the switch keeps to the dead device."""
        marks = {
            "iface-id": vif.port_id,
            "iface-status": "active",
            "attached-mac": vif.mac,
            "vm-uuid": vif.container,
            "zun-owner": self._owner,
        }
        columns = [f"external_ids:{key}={json.dumps(value)}" for key, value in marks.items()]
        set_up = ["--", "set", "Interface", vif.tap, *columns, f"mtu_request={vif.mtu}"]
        add = ["add-port", vif.bridge, vif.tap, *set_up]
        if not anew:
            await self._run(["--may-exist", *add])
            return
        try:
            await self._run(add)
        except NetworkSetupFailed as error:
            if _THERE not in error.message:
                raise
            await self.detach([vif.tap])
            await self._run(add)

    async def detach(self, taps: Sequence[str]) -> None:
        """The ports are gone from whatever bridge they were on. Absent is success."""
        commands: list[str] = []
        for tap in taps:
            commands += ["--", "--if-exists", "del-port", tap]
        if commands:
            await self._run(commands[1:])

    async def ports(self, container: str | None = None) -> list[OvsPort]:
        """Ours, of one container or all; none on a host where Open vSwitch does not run. What it may remember of a
        container that went meanwhile, the next look at all ports finds."""
        wanted = [f'external_ids:zun-owner="{self._owner}"']
        wanted += [f'external_ids:vm-uuid="{container}"'] if container else []
        ask = ["--format=json", "--columns=name,external_ids", "find", "Interface", *wanted]
        try:
            answer = json.loads(await self._run(ask))
        except FileNotFoundError:
            return []
        except ServiceUnavailable:
            if self._database or _socket().exists():
                raise
            return []
        return [_port(name, dict(ids[1])) for name, ids in answer["data"]]

    async def userspace(self, bridge: str) -> bool:
        """Does the bridge switch in user space?"""
        text = await self._run(["--if-exists", "get", "Bridge", bridge, "datapath_type"])
        return text.strip().strip('"') == "netdev"

    def _command(self) -> list[str]:
        database = self._database or (None if _socket().exists() else _USUAL)
        return ["ovs-vsctl", f"--timeout={_SECONDS}", *([f"--db={database}"] if database else [])]

    async def _run(self, arguments: Sequence[str]) -> str:
        """Raises FileNotFoundError where there is no such command."""
        async with self._slots:
            process = await asyncio.create_subprocess_exec(
                *self._command(), *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
            try:
                async with asyncio.timeout(_SECONDS + 2):
                    output, errors = await process.communicate()
            except TimeoutError as error:
                raise ServiceUnavailable(SERVICE, f"no answer within {_SECONDS} seconds") from error
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        if process.returncode:
            raise _fault(process.returncode, errors.decode(errors="replace"))
        return output.decode()


def _socket() -> Path:
    """Where the command looks for the database by default."""
    return Path(os.environ.get("OVS_RUNDIR") or "/var/run/openvswitch", "db.sock")


def _port(name: str, ids: Mapping[str, Any]) -> OvsPort:
    return OvsPort(str(name), str(ids.get("vm-uuid", "")), str(ids.get("iface-id", "")))


def _fault(code: int, text: str) -> Exception:
    reason = (text.strip().splitlines() or ["no reason given"])[-1].removeprefix("ovs-vsctl: ")[:300]
    silent = code < 0 or "database connection failed" in reason or "timeout" in reason.lower()
    if silent or "Alarm clock" in text:
        return ServiceUnavailable(SERVICE, reason)
    return NetworkSetupFailed(f"Open vSwitch refused: {reason}")
