"""A shell on this machine's own pseudo-terminal, as the script of a relay that stands in for a node's."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import struct
import termios

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

_PIECE = 64 * 1024


async def shell(connection: ServerConnection) -> None:
    """``sh`` with the prompt ``$ ``; ends when it ends, and is killed when the proxy goes."""
    master, slave = os.openpty()
    environment = {"PATH": os.environ["PATH"], "PS1": "$ ", "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    process = await asyncio.create_subprocess_exec(
        "setsid", "--ctty", "sh", stdin=slave, stdout=slave, stderr=slave, env=environment
    )
    os.close(slave)
    tasks = [asyncio.create_task(work) for work in (_print(connection, master), _type(connection, master))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done() and tasks[0].exception() is None:  # the shell ended; else what it printed found nobody
            with contextlib.suppress(ConnectionClosed):
                await connection.send(json.dumps({"exit": await process.wait()}))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        os.close(master)


async def _print(connection: ServerConnection, master: int) -> None:
    while data := await asyncio.to_thread(_read, master):
        await connection.send(data)


def _read(master: int) -> bytes:
    try:
        return os.read(master, _PIECE)
    except OSError:  # the shell closed its side
        return b""


async def _type(connection: ServerConnection, master: int) -> None:
    async for message in connection:
        if isinstance(message, bytes):
            await asyncio.to_thread(_write, master, message)
        elif "resize" in (control := json.loads(message)):
            size = control["resize"]
            fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", size["height"], size["width"], 0, 0))


def _write(master: int, data: bytes) -> None:
    while data:
        data = data[os.write(master, data) :]
