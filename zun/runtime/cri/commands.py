"""Commands in a member: run, collect, and end what runs too long, with what it started."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
from collections.abc import Mapping, Sequence

import grpc
import grpc.aio
import psutil

from zun.runtime.base import ExecResult
from zun.runtime.cri.client import CriClient
from zun.runtime.cri.errors import conflict, words
from zun.runtime.docker_streams import Tail

LOG = logging.getLogger(__name__)

_SLACK = 5.0
"""Seconds that the engine has to tell the end of a command that is over."""
_NO_PROGRAM = ("executable file not found", "no such file or directory")
_NOT_A_PROGRAM = ("permission denied", "exec format error", "is a directory")

Family = Mapping[int, Sequence[psutil.Process]]
"""Of processes that the engine started in a container: each one's pid, and all below it."""


async def execute(client: CriClient, engine_id: str, pid: int, command: Sequence[str], timeout: float) -> ExecResult:
    """Run ``command`` and wait at most ``timeout`` seconds; at most 1 MiB of output is kept, standard output first: CRI
    does not tell in which order the streams were written. ``pid``: the container's first process on this host, 0 = not
    known. Raises EngineConflict naming the limit when it runs longer (its processes are killed first), and when it has
    written more than the engine passes on (containerd: 16 MiB)."""
    asked = asyncio.create_task(
        client.raw(
            "ExecSync",
            timeout + _SLACK,
            container_id=engine_id,
            cmd=list(command),
            timeout=max(1, math.ceil(timeout)),
        )
    )
    try:
        done, _ = await asyncio.wait({asked}, timeout=timeout)
        if not done:
            await _end(asked, pid)
            raise conflict(f"the command ran longer than the limit of {timeout:g} seconds")
        answer = await asked
    except asyncio.CancelledError:
        await asyncio.shield(_end(asked, pid))
        raise
    except grpc.aio.AioRpcError as error:
        return _not_run(client, error, timeout)
    output = Tail()
    output.add(answer.stdout)
    output.add(answer.stderr)
    return ExecResult(output.text(), answer.exit_code)


def _not_run(client: CriClient, error: grpc.aio.AioRpcError, timeout: float) -> ExecResult:
    """What a shell would say of a command that cannot be run. Raises the port's errors for all else."""
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        raise conflict(f"the command ran longer than the limit of {timeout:g} seconds") from error
    text = words(error)
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
        raise conflict("the command has written more than the engine passes on at once") from error
    if "failed to exec" in text.lower() and error.code() is grpc.StatusCode.UNKNOWN:
        if any(one in text.lower() for one in _NO_PROGRAM):
            return ExecResult(f"{text}\n", 127)
        if any(one in text.lower() for one in _NOT_A_PROGRAM):
            return ExecResult(f"{text}\n", 126)
    raise client.translated(error) from error


async def _end(asked: asyncio.Task[object], pid: int) -> None:
    """Give the call up. The engine then kills the command itself and nothing else; what it had started is known by
    whom the engine killed."""
    before = await asyncio.to_thread(families, pid)
    asked.cancel()
    with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
        await asked
    killed = 0
    for _ in range(50):
        gone = [root for root in before if not alive(before[root][0])]
        if gone:
            killed = await asyncio.to_thread(kill, [one for root in gone for one in before[root][1:]])
            break
        if not before:
            break
        await asyncio.sleep(0.02)
    LOG.info("action=exec_end candidates=%d children_killed=%d", len(before), killed)


def families(pid: int) -> Family:
    """All that the engine started in the container of ``pid`` beside its first process, by their parents: what entered
    the container from outside has a parent outside. Empty where processes cannot be seen."""
    if not pid:
        return {}
    try:
        inside = os.stat(f"/proc/{pid}/ns/pid").st_ino
        shim = psutil.Process(pid).parent()
        entered = [one for one in (shim.children() if shim else ()) if one.pid != pid]
    except (OSError, psutil.Error):
        return {}
    found: dict[int, Sequence[psutil.Process]] = {}
    for one in entered:
        with contextlib.suppress(OSError, psutil.Error):
            if os.stat(f"/proc/{one.pid}/ns/pid").st_ino == inside:
                found[one.pid] = [one, *one.children(recursive=True)]
    return found


def alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def kill(processes: Sequence[psutil.Process]) -> int:
    killed = 0
    for process in processes:
        # psutil compares the start time: a pid that was given anew is not touched.
        with contextlib.suppress(psutil.Error, OSError):
            process.send_signal(signal.SIGKILL)
            killed += 1
    return killed
