"""Commands as containerd's shims know them, below CRI: where a sandbox has a kernel of its own (gVisor, Kata), no
process of this host is the command, and only its shim can end it.

CRI does not tell the id it gave a command; the pipes of its streams carry it in their names.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zun.domain.errors import EngineError, EngineNotFound, EngineUnreachable
from zun.runtime.cri.client import CriClient

LOG = logging.getLogger(__name__)

_STREAMS = ("-stdin", "-stdout", "-stderr")
_STOPPED = 3
_ENDS_WITHIN = 10.0
"""Seconds that a shim has to end a command."""
_PAUSE = 0.1
_ASKED_AGAIN = 1.0
_SIGNALS = ((signal.SIGHUP, 1.5), (signal.SIGTERM, 1.5), (signal.SIGKILL, _ENDS_WITHIN))
"""One after another, as a terminal that is closed does first, and the seconds that each has: some shims cannot pass on
the last one."""


@dataclass(frozen=True, slots=True)
class Pipes:
    """Named ones of this host, between containerd and a shim."""

    given: Path
    shown: Sequence[Path]


class TaskExecs:
    """Of one engine."""

    def __init__(self, client: CriClient) -> None:
        self._client = client

    async def of(self, engine_id: str, *, reading: bool = False) -> Mapping[str, float] | None:
        """Ids of the commands that run in a container, and when each began, in seconds since 1970; ``reading``: only of
        those that are given input. None where they cannot be seen: another engine than containerd, or another
        machine's. Raises EngineUnreachable."""
        folder = await self._folder(engine_id)
        if folder is None:
            return None
        return await asyncio.to_thread(_listed, folder, _STREAMS[:1] if reading else _STREAMS)

    async def pipes(self, engine_id: str, exec_id: str, *, tty: bool) -> Pipes | None:
        """Of a command, or of the container's own program (an empty id); None where ``of`` sees none, and once they are
        gone. Raises EngineUnreachable."""
        folder = await self._folder(engine_id)
        if folder is None:
            return None
        return await asyncio.to_thread(_pipes, folder, exec_id or engine_id, _STREAMS[1 : 2 if tty else 3])

    async def ended(self, engine_id: str, exec_id: str) -> None:
        """Returns when the command, or the container's own program (an empty id), has. One that has not begun is waited
        for too. Raises EngineUnreachable."""
        while True:
            try:
                await self._client.awaited("Tasks.Wait", container_id=engine_id, exec_id=exec_id)
                return
            except EngineUnreachable:
                raise
            except EngineNotFound:
                if not await self._runs(engine_id) or exec_id not in (await self.of(engine_id) or {}):
                    return
            except EngineError as error:
                LOG.debug("action=wait container=%s exec=%s reason=%s", engine_id, exec_id, error.text)
            await asyncio.sleep(_ASKED_AGAIN)

    async def end(self, engine_id: str, exec_id: str) -> bool:
        """Signals, until it is over; one that is gone is. False: its shim did not manage. Never raises."""
        loop = asyncio.get_running_loop()
        for number, seconds in _SIGNALS:
            until, told = loop.time() + seconds, False
            while loop.time() < until:
                with contextlib.suppress(
                    EngineError
                ):  # of one that has not begun, or has just ended: seen the next time
                    if await self._over(engine_id, exec_id):
                        return True
                    if not told:
                        await self._client.call("Tasks.Kill", container_id=engine_id, exec_id=exec_id, signal=number)
                        told = True
                await asyncio.sleep(_PAUSE)
        return False

    async def resize(self, engine_id: str, *, height: int, width: int) -> bool:
        """The terminal of the container's own program; False where only who is attached can. Raises the port's
        errors."""
        if (await self._client.connect()).name != "containerd":
            return False
        await self._client.call("Tasks.ResizePty", container_id=engine_id, height=height, width=width)
        return True

    async def _folder(self, engine_id: str) -> Path | None:
        facts = await self._client.connect()
        if facts.name != "containerd" or not facts.state:
            return None
        return Path(facts.state) / "containers" / engine_id / "io"

    async def _runs(self, engine_id: str) -> bool:
        try:
            answer = await self._client.call("Tasks.Get", container_id=engine_id)
        except EngineNotFound:
            return False
        return bool(answer.process.status != _STOPPED)

    async def _over(self, engine_id: str, exec_id: str) -> bool:
        """Has it ended? One that has not begun yet is not known either, but has its pipes."""
        try:
            answer = await self._client.call("Tasks.Get", container_id=engine_id, exec_id=exec_id)
        except EngineUnreachable:
            raise
        except EngineNotFound:
            return exec_id not in (await self.of(engine_id) or {})
        return bool(answer.process.status == _STOPPED)


def _listed(folder: Path, streams: Sequence[str]) -> Mapping[str, float] | None:
    """The container's own pipes carry its own id, and are none of a command."""
    found: dict[str, float] = {}
    own = folder.parent.name
    try:
        places = list(os.scandir(folder))
    except OSError as error:
        LOG.debug("action=exec_ids folder=%s result=not readable reason=%s", folder, error)
        return None
    for place in places:
        with contextlib.suppress(OSError):  # removed meanwhile
            began = place.stat().st_mtime
            for name in os.listdir(place.path):
                ident = next((name.removesuffix(end) for end in streams if name.endswith(end)), "")
                if ident and ident != own:
                    found[ident] = began
    return found


def _pipes(folder: Path, ident: str, shown: Sequence[str]) -> Pipes | None:
    """With a terminal there is a pipe of errors too, which nobody uses."""
    given = next(folder.glob(f"*/{ident}{_STREAMS[0]}"), None)
    if given is None:
        return None
    return Pipes(given, [given.with_name(f"{ident}{end}") for end in shown])
