"""Calls os-brick in the process that ``brick_server`` is: started when first needed, again when it died.

Each call has a deadline. Nothing of os-brick is imported here."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

log = logging.getLogger(__name__)

_STARTS_WITHIN = 60.0
_ANSWER_LIMIT = 16 * 1024 * 1024
_GRACE = 10.0
"""Seconds beyond a call's own deadline after which the process itself is taken for stuck."""


class BrickFailed(Exception):
    """os-brick said no, did not end in time, or is not installed; the text is for a person."""


class Brick:
    """One process beside the agent."""

    def __init__(self, conf: Any) -> None:
        self._ip = str(conf.my_block_storage_ip)
        self._host = str(conf.host)
        self._multipath = bool(conf.volume.use_multipath)
        self._seconds = float(conf.volume.timeout_connect)
        self._locks = Path(conf.state_path) / "locks"
        self._process: Process | None = None
        self._starting = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._waiting: dict[int, tuple[Process, asyncio.Future[Any]]] = {}
        self._last = 0
        self._properties: Mapping[str, Any] | None = None

    async def properties(self) -> Mapping[str, Any]:
        """This host as Cinder has to know it; read once. Raises BrickFailed."""
        if self._properties is None:
            self._properties = await self._call("properties", ip=self._ip, host=self._host, multipath=self._multipath)
        return self._properties

    async def connect(self, connection: Mapping[str, Any]) -> Mapping[str, Any]:
        """The device, ``path`` in the result; connected already is success. Raises BrickFailed."""
        device = await self._call("connect", connection=dict(connection), multipath=self._multipath)
        if not isinstance(device, dict) or not device.get("path"):
            raise BrickFailed(f"{connection.get('driver_volume_type')} gave no device")
        return device

    async def disconnect(
        self, connection: Mapping[str, Any], device: Mapping[str, Any] | None, *, force: bool = False
    ) -> None:
        """Absent is success; ``force`` when nothing on it can be lost any more. Raises BrickFailed."""
        arguments = {"connection": dict(connection), "device": device and dict(device), "force": force}
        await self._call("disconnect", **arguments, multipath=self._multipath)

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            await _end(process)
        if self._reader is not None:
            await asyncio.gather(self._reader, return_exceptions=True)

    async def _call(self, name: str, **arguments: Any) -> Any:
        process = await self._running()
        self._last += 1
        call = self._last
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[call] = (process, answer)
        try:
            self._send(process, {"id": call, "call": name, "arguments": arguments, "seconds": self._seconds})
            async with asyncio.timeout(self._seconds + _GRACE):
                return await answer
        except TimeoutError as error:
            await _end(process)
            raise BrickFailed(f"os-brick's {name} did not end within {self._seconds:g} s") from error
        except asyncio.CancelledError:
            self._send(process, {"id": call, "cancel": True})
            raise
        except BrickFailed as error:
            raise BrickFailed(f"os-brick's {name} failed: {error}") from error
        finally:
            self._waiting.pop(call, None)

    def _send(self, process: Process, request: Mapping[str, Any]) -> None:
        if process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(orjson.dumps(request) + b"\n")

    async def _running(self) -> Process:
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                self._process = await self._start()
            return self._process

    async def _start(self) -> Process:
        environment = dict(os.environ)
        # Beside its own folders: whatever the agent's PATH is, the tools of storage are in sbin.
        paths = (environment.get("PATH", ""), "/usr/sbin:/sbin:/usr/bin:/bin")
        environment |= {"LC_ALL": "C", "PATH": os.pathsep.join(path for path in paths if path)}
        try:
            self._locks.mkdir(parents=True, exist_ok=True, mode=0o700)
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-W", "ignore", "-m", "zun.volume.brick_server", str(self._locks)),
                stdin=PIPE,
                stdout=PIPE,
                limit=_ANSWER_LIMIT,
                env=environment,
            )
        except OSError as error:
            raise BrickFailed(f"os-brick's process cannot be started: {error.strerror or error}") from error
        try:
            async with asyncio.timeout(_STARTS_WITHIN):
                ready = await _lines(process).readline()
        except TimeoutError as error:
            await _end(process)
            raise BrickFailed(f"os-brick was not loaded within {_STARTS_WITHIN:g} s") from error
        except BaseException:
            await _end(process)
            raise
        if not ready:
            await _end(process)
            raise BrickFailed("os-brick cannot be loaded: install zun-ng[cinder]; the agent's log says more")
        self._reader = asyncio.create_task(self._read(process), name="brick-answers")
        log.info("action=start-brick pid=%s", process.pid)
        return process

    async def _read(self, process: Process) -> None:
        while line := await _lines(process).readline():
            answer = orjson.loads(line)
            _, waiting = self._waiting.get(answer["id"], (None, None))
            if waiting is None or waiting.done():
                continue
            if "error" in answer:
                waiting.set_exception(BrickFailed(str(answer["error"]).rstrip(".")))
            else:
                waiting.set_result(answer["result"])
        await process.wait()
        for owner, waiting in self._waiting.values():
            if owner is process and not waiting.done():
                waiting.set_exception(BrickFailed("its process died"))


def _lines(process: Process) -> asyncio.StreamReader:
    if process.stdout is None:
        raise RuntimeError("the process was started without its pipes")
    return process.stdout


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()
