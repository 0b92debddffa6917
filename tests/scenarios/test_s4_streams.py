"""Scenario 4, bytes in bulk: client, proxy, relay and Docker, with a reader that stops until all stands still."""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from tests.support.cloud import Cloud
from tests.support.sessions import noise
from tests.support.wait import eventually

pytestmark = pytest.mark.timeout(600)

MIB = 1 << 20
EVERY_BYTE = bytes(range(256))
FRAME = 60_000
SIZE = len(EVERY_BYTE) + 64 * MIB
_STANDS = 5
"""Looks in a row without a change, 0.25 s apart at most."""


@functools.cache
def _noise() -> list[bytes]:
    return [noise(MIB, seed) for seed in range(4)]


def _frames() -> Iterator[bytes]:
    """Each byte there is, and 64 MiB of noise."""
    yield EVERY_BYTE
    for number in range(64):
        block = _noise()[number % 4]
        for at in range(0, MIB, FRAME):
            yield block[at : at + FRAME]


@dataclass
class Passed:
    """How many bytes were given and came, the digests of both, and how the session closed."""

    given: int
    came: int
    sent: str
    found: str
    closed: tuple[int | None, str | None]
    most_ahead: int
    """The largest difference of both: what everything between holds."""


def test_64_mib_of_noise_pass_a_terminal_unchanged_both_ways_with_a_slow_reader(member: Cloud) -> None:
    uuid = member.running()["uuid"]
    command = f"sh -c 'stty raw -echo; printf ready; head -c {SIZE} | cat; exit 5'"
    asked = {"command": command, "interactive": "True", "run": "False"}
    url = member.post(f"/containers/{uuid}/execute", 200, params=asked).json()["proxy_url"]
    passed = asyncio.run(_there_and_back(url, b"ready"))
    assert (passed.given, passed.came, passed.found) == (SIZE, SIZE, passed.sent)
    assert passed.closed == (1000, "The command has ended with exit code 5.")
    assert passed.most_ahead < 32 * MIB, "only buffers of the kernel and of the engine are filled"


def test_attached_without_a_terminal_gets_all_that_was_written_until_the_container_ends(member: Cloud) -> None:
    command = ["sh", "-c", f"read go; printf ready; head -c {SIZE} | cat; exit 3"]
    uuid = member.running(command=command, interactive=True)["uuid"]
    passed = asyncio.run(_there_and_back(member.get(f"/containers/{uuid}/attach"), b"ready", first=b"go\n"))
    assert (passed.given, passed.came, passed.found) == (SIZE, SIZE, passed.sent)
    assert passed.closed == (1000, "Target closed")
    member.wait(uuid, "Stopped")


async def _there_and_back(url: str, ready: bytes, first: bytes = b"") -> Passed:
    """Type everything, and read it again; after each quarter nothing is read until nothing more can be typed."""
    binary = [Subprotocol("binary")]
    async with connect(url, subprotocols=binary, compression=None, max_queue=1, proxy=None) as client:
        if first:
            await client.send(first)
        shown = b""
        while len(shown) < len(ready):
            shown += await _bytes(client)
        assert shown == ready
        made = Passed(0, 0, "", "", (None, None), 0)
        typing = asyncio.create_task(_type(client, made))
        await _read(client, made, typing)
        await typing
    made.closed = (client.close_code, client.close_reason)
    return made


async def _type(client: ClientConnection, made: Passed) -> None:
    digest = hashlib.sha256()
    for frame in _frames():
        await client.send(frame)
        digest.update(frame)
        made.given += len(frame)
    made.sent = digest.hexdigest()


async def _read(client: ClientConnection, made: Passed, typing: asyncio.Task[None]) -> None:
    digest, pause_at = hashlib.sha256(), SIZE // 4
    try:
        while True:
            piece = await _bytes(client)
            digest.update(piece)
            made.came += len(piece)
            made.most_ahead = max(made.most_ahead, made.given - made.came)
            if made.came >= pause_at and not typing.done():
                pause_at += SIZE // 4
                await _stands_still(made, typing)
    except ConnectionClosed:
        made.found = digest.hexdigest()


async def _stands_still(made: Passed, typing: asyncio.Task[None]) -> None:
    seen, times = -1, 0

    def stands() -> bool:
        nonlocal seen, times
        seen, times = (made.given, times + 1) if seen == made.given else (made.given, 0)
        return times >= _STANDS or typing.done()

    await eventually(stands, 120, "nothing more can be typed")


async def _bytes(client: ClientConnection) -> bytes:
    message = await client.recv()
    return message if isinstance(message, bytes) else message.encode()
