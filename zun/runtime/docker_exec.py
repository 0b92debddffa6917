"""Commands in a Docker container: run, collect, and end what runs too long."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import psutil

from zun.domain.errors import EngineConflict, EngineError, EngineNotFound
from zun.runtime.base import ExecResult
from zun.runtime.docker_client import DockerClient
from zun.runtime.docker_streams import Tail, collect

LOG = logging.getLogger(__name__)

_NO_KEYS = "ctrl-^," + ",".join("zunneverdetachesfromcommands")
"""Keys that let go of a command's terminal cannot be switched off, only replaced: the usual ones are sent by people.
The engine keeps the first of them, typed last, until the next key comes."""


async def execute(client: DockerClient, container: str, command: Sequence[str], timeout: float) -> ExecResult:
    """Run ``command`` and wait at most ``timeout`` seconds; at most 1 MiB of output is kept. Raises EngineConflict
    naming the limit when it runs longer; its processes are killed first."""
    body = {"Cmd": list(command), "AttachStdout": True, "AttachStderr": True, "Tty": False}
    created = await client.call("POST", f"containers/{container}/exec", body=body)
    exec_id, output = created["Id"], Tail()
    try:
        async with asyncio.timeout(timeout):
            start = {"Detach": False, "Tty": False}
            async with client.stream("POST", f"exec/{exec_id}/start", body=start) as content:
                await collect(content.iter_any(), output, framed=True)
            code = await exit_code(client, exec_id)
    except TimeoutError as error:
        await end(client, exec_id)
        raise EngineConflict(f"the command ran longer than the limit of {timeout:g} seconds") from error
    except asyncio.CancelledError:
        await asyncio.shield(end(client, exec_id))
        raise
    return ExecResult(output.text(), code)


async def prepare(client: DockerClient, container: str, command: Sequence[str], *, tty: bool, stdin: bool) -> str:
    """Make an interactive command that does not run yet; the engine's id of it. Raises EngineConflict when the
    container does not run."""
    body = {"Cmd": list(command), "AttachStdin": stdin, "AttachStdout": True, "AttachStderr": True, "Tty": tty}
    if tty:
        body["DetachKeys"] = _NO_KEYS
    return str((await client.call("POST", f"containers/{container}/exec", body=body))["Id"])


async def begun(client: DockerClient, exec_id: str) -> bool:
    """Does the command run, or did it? Raises EngineNotFound."""
    facts = await client.call("GET", f"exec/{exec_id}/json")
    return bool(facts["Running"] and facts["Pid"]) or facts["ExitCode"] is not None


async def exit_code(client: DockerClient, exec_id: str) -> int:
    # The streams may close before the engine has noted the exit, or long before: a command can close its output.
    pause = 0.01
    while True:
        facts = await client.call("GET", f"exec/{exec_id}/json")
        if not facts["Running"] and facts["ExitCode"] is not None:
            return int(facts["ExitCode"])
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.5)


async def end(client: DockerClient, exec_id: str) -> None:
    """Kill the command and its children on this host. Where that cannot be, say so and leave it."""
    try:
        facts = await client.call("GET", f"exec/{exec_id}/json")
    except EngineError as error:
        LOG.warning("action=exec_end exec=%s result=unknown error=%s", exec_id, error.text)
        return
    pid = int(facts.get("Pid") or 0)
    if not facts.get("Running") or not pid:
        return
    if not client.local:
        LOG.warning("action=exec_end exec=%s result=left_running reason=remote_engine", exec_id)
        return
    killed = await asyncio.to_thread(kill_tree, pid, facts.get("ContainerID", ""))
    level = logging.INFO if killed else logging.WARNING
    LOG.log(level, "action=exec_end exec=%s pid=%d killed=%d", exec_id, pid, killed)


async def end_left(client: DockerClient, exec_id: str) -> None:
    """As ``end``, for a command that an earlier process ran. One that the engine has forgotten is over. Raises
    EngineUnreachable."""
    try:
        await client.call("GET", f"exec/{exec_id}/json")
    except EngineNotFound:
        return
    await end(client, exec_id)


def kill_tree(pid: int, container_id: str) -> int:
    """KILL ``pid`` and its descendants, only if ``pid`` still belongs to the container; returns how many."""
    try:
        # The cgroup of the process names the container: a number that was reused meanwhile is not touched.
        if not container_id or container_id not in Path(f"/proc/{pid}/cgroup").read_text():
            return 0
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except (OSError, psutil.Error):
        return 0
    killed = 0
    for process in family:
        try:
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        except OSError as error:
            LOG.debug("action=exec_end pid=%d error=%s", process.pid, error)
    return killed
