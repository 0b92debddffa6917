"""Programs of a real containerd that end without having read what they were given: the engine is not stuck in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.pods import CriBench
from tests.support.sessions import Screen, SessionsBench, long_sleep, processes
from tests.support.wait import eventually
from zun.domain.errors import EngineUnreachable
from zun.runtime.cri.streams import CriSession
from zun.runtime.sessions import Session

_LINES = b"a line that nobody reads\n" * 2600
"""Nearly a piece."""


@asynccontextmanager
async def clogged(session: Session) -> AsyncIterator[None]:
    """Its input is given until nothing more of it is taken, and more of it waits meanwhile."""
    taken = 0

    async def paste() -> None:
        nonlocal taken
        while True:
            await session.write(_LINES)
            taken += 1

    async def stuck() -> bool:
        before = taken
        await asyncio.sleep(1.0)
        return taken == before

    pasting = asyncio.create_task(paste())
    try:
        await eventually(stuck, 60, "nothing more is taken")
        yield
    finally:
        pasting.cancel()
        for result in await asyncio.gather(pasting, return_exceptions=True):
            assert isinstance(result, asyncio.CancelledError | EngineUnreachable), result


def pipes(cri: CriBench) -> Sequence[Path]:
    """Named ones of commands; those of the container's own program carry its id."""
    found = cri.engine.root.glob("state/io.containerd.grpc.v1.cri/containers/*/io/*/*-std*")
    return [one for one in found if not one.name.startswith(one.parents[2].name)]


@pytest.mark.parametrize("tty", [False, True])
async def test_end_of_a_command_is_told_with_its_exit_code(cri: CriBench, tty: bool) -> None:
    bench, member, program = SessionsBench(cri, real=True), await cri.running(await cri.capsule()), long_sleep()
    async with bench.exec(member, *program, tty=tty) as session, clogged(session):
        await eventually(lambda: processes(program), 20, "the command runs")
        processes(program)[0].kill()
        await Screen(session).rest()
        assert session.exit_code == 137
    await eventually(lambda: not pipes(cri), 20, "the engine has let go of the session")
    assert await cri.sh(member, "echo alive") == "alive"


@pytest.mark.parametrize("tty", [False, True])
async def test_end_of_the_container_is_told_to_who_is_attached(cri: CriBench, tty: bool) -> None:
    member = await cri.running(await cri.capsule(), *long_sleep(), tty=tty, stdin=True)
    async with cri.pods.attach_session(member, stdin=True) as session, clogged(session):
        await cri.pods.stop(member, 0)
        await Screen(session).rest()
    await cri.pods.remove(member, force=True)


async def test_who_leaves_leaves_nothing_in_the_engine(cri: CriBench) -> None:
    bench, member, program = SessionsBench(cri, real=True), await cri.running(await cri.capsule()), long_sleep()
    async with bench.exec(member, *program) as session:
        async with clogged(session):
            pass
        await session.end_command()
    await eventually(lambda: not pipes(cri), 20, "the engine has let go of the session")
    assert not processes(program)


async def test_what_the_command_has_started_reads_on(cri: CriBench) -> None:
    """Its input is not taken from it, though the command has ended."""
    bench, member = SessionsBench(cri, real=True), await cri.running(await cri.capsule())
    script = "exec 3<&0; (until [ -e /tmp/go ]; do sleep 0.1; done; wc -c <&3) & exit 5"
    async with bench.exec(member, "sh", "-c", script) as session:
        assert isinstance(session, CriSession)
        giving = asyncio.create_task(_given(session, 10 * len(_LINES)))
        await eventually(lambda: session._unread._over, 30, "the command is known to have ended")
        await cri.sh(member, "touch /tmp/go")
        shown = await Screen(session).rest()
        await giving
        assert (shown.strip(), session.exit_code) == (b"%d" % (10 * len(_LINES)), 5)


async def _given(session: Session, size: int) -> None:
    for _ in range(size // len(_LINES)):
        await session.write(_LINES)
    await session.close_stdin()
