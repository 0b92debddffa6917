"""Interactive sessions with members of a real containerd: what the contract of all engines does not say."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.pods import CriBench
from tests.support.sessions import Screen, SessionsBench, processes
from tests.support.wait import eventually
from zun.domain.errors import EngineUnreachable


async def test_both_outputs_of_a_command_are_one(cri: CriBench) -> None:
    member = await cri.running(await cri.capsule())
    script = "read line; echo got $line; echo err >&2; exit 9"
    async with SessionsBench(cri, real=True).exec(member, "sh", "-c", script) as session:
        await session.write(b"hello\n")
        shown = await Screen(session).rest()
    assert sorted(shown.splitlines()) == [b"err", b"got hello"]
    assert (session.exit_code, session.failure) == (9, "")


async def test_sessions_that_begin_at_once_are_ended_one_by_one(cri: CriBench) -> None:
    bench, member = SessionsBench(cri, real=True), await cri.running(await cri.capsule())
    command = ("sh", "-c", "sleep 86405; true")

    async def session(*, ended: bool) -> int | None:
        async with bench.exec(member, *command) as one:
            if ended:
                await one.end_command()
                await Screen(one).rest()
            else:
                await all_ended.wait()
                assert len(processes(["sleep", "86405"])) == 2
            return one.exit_code

    all_ended = asyncio.Event()
    going_on = [asyncio.create_task(session(ended=False)) for _ in range(2)]
    codes = await asyncio.gather(*(session(ended=True) for _ in range(4)))
    await eventually(lambda: len(processes(["sleep", "86405"])) == 2, 20, "only those that go on are left")
    all_ended.set()
    assert await asyncio.gather(*going_on) == [None, None]
    assert codes == [137] * 4


async def test_sessions_that_end_as_they_begin_do_not_stop_what_others_see(cri: CriBench) -> None:
    """And sizes hold, whoever is attached."""
    member = await cri.running(await cri.capsule(), "sh", tty=True, stdin=True)
    async with cri.pods.attach_session(member, stdin=True) as session:
        screen = Screen(session)
        for height in range(20, 45):
            async with cri.pods.attach_session(member, stdin=False):
                pass
            await cri.pods.resize(member, height=height, width=80)
            await session.write(b"echo seen $((1000 + %d))\n" % height)
            await screen.until(b"\r\nseen %d\r\n" % (1000 + height))

            async def sized(height: int = height) -> bool:
                await session.write(b"stty size\n")
                return b"\n%d 80\r\n" % height in await screen.until(b" 80\r\n")

            await eventually(sized, 20, "the terminal has the size")


async def test_what_is_no_program_is_a_failure(cri: CriBench) -> None:
    member = await cri.running(await cri.capsule())
    async with SessionsBench(cri, real=True).exec(member, "no-such-program", stdin=False) as session:
        await Screen(session).rest()
        assert session.exit_code is None
        assert "no-such-program" in session.failure


async def test_session_breaks_off_with_the_engine(cri: CriBench) -> None:
    member = await cri.running(await cri.capsule())
    async with SessionsBench(cri, real=True).exec(member, "sh", tty=True) as session:
        screen = Screen(session)
        await session.write(b"echo a$((1+1))b\n")
        await screen.until(b"a2b")
        cri.engine.kill()
        try:
            with pytest.raises(EngineUnreachable):
                await screen.rest()
        finally:
            await asyncio.to_thread(cri.engine.start)
    await eventually(lambda: cri.pods.inspect(member), 20, "the engine answers again")
