"""Runs the system's tools (mkfs, mount, losetup) beside the event loop, each with a deadline."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass

log = logging.getLogger(__name__)

_DIES_WITHIN = 5.0
_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"


class CommandFailed(Exception):
    """The tool is missing, said no, or did not end in time; the text is for a person."""


@dataclass(frozen=True, slots=True)
class Result:
    """Exit code and both streams, trimmed."""

    code: int
    output: str
    error: str

    @property
    def text(self) -> str:
        """What the tool said, on one line."""
        return " ".join((self.error or self.output or f"exit code {self.code}").split())


async def run(*arguments: str, deadline: float = 60) -> Result:
    """Run a tool; any exit code is a result. Raises CommandFailed. A cancelled or late tool is killed."""
    environment = {"LC_ALL": "C", "PATH": os.environ.get("PATH", "") + os.pathsep + _PATH}
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
    except OSError as error:
        raise CommandFailed(f"{arguments[0]} cannot be run: {error.strerror}") from error
    try:
        async with asyncio.timeout(deadline):
            output, errors = await process.communicate()
    except TimeoutError as error:
        raise CommandFailed(f"{arguments[0]} did not end within {deadline:g} s") from error
    finally:
        if process.returncode is None:
            await _kill(process)
    result = Result(process.returncode or 0, output.decode(errors="replace"), errors.decode(errors="replace"))
    log.debug("action=run tool=%s code=%s", arguments[0], result.code)
    return result


async def _kill(process: asyncio.subprocess.Process) -> None:
    """A tool that hangs in the kernel does not even die; it is not waited for."""
    process.kill()
    try:
        async with asyncio.timeout(_DIES_WITHIN):
            await process.wait()
    except TimeoutError:
        log.error("action=run pid=%s result=stuck reason=it hangs in the kernel", process.pid)


async def checked(*arguments: str, deadline: float = 60) -> str:
    """Run a tool that has to succeed; its output. Raises CommandFailed with the tool's text."""
    result = await run(*arguments, deadline=deadline)
    if result.code:
        raise CommandFailed(f"{arguments[0]}: {result.text}")
    return result.output
