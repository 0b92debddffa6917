"""Commands that are no processes of this host, as in a sandbox with a kernel of its own: their shim ends them. runc's
does here, whose processes are hidden from the product; gVisor's and Kata's own shims are no packages of Debian's."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.pods import CriBench
from tests.support.sessions import Screen, SessionsBench, processes
from tests.support.wait import eventually
from zun.domain.clock import SystemClock
from zun.runtime.cri import claims, leftovers


@pytest.fixture(autouse=True)
def nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (claims, leftovers):
        monkeypatch.setattr(module, "roots", lambda pid: frozenset())


async def test_the_command_of_a_session_and_no_other(cri: CriBench) -> None:
    bench = SessionsBench(cri, real=True)
    member = await cri.running(await cri.capsule())
    async with bench.exec(member, "cat") as other:
        for seconds in ("86430", "86431"):  # what the first one taught is used by the second
            async with bench.exec(member, "sleep", seconds) as session:
                await session.end_command()
                await Screen(session).rest()
                await eventually(lambda s=seconds: not processes(["sleep", s]), 20, "the command is gone")  # type: ignore[misc]
                assert session.exit_code in (129, 137, 143)
        await other.write(b"alive")
        await other.close_stdin()
        assert await Screen(other).rest() == b"alive"


async def test_what_ignores_the_first_signals_is_killed(cri: CriBench) -> None:
    bench = SessionsBench(cri, real=True)
    member = await cri.running(await cri.capsule())
    script = "trap '' HUP TERM; echo up; while :; do sleep 86432; done"
    async with bench.exec(member, "sh", "-c", script) as session:
        screen = Screen(session)
        await screen.until(b"up\n")
        await session.end_command()
    await eventually(lambda: not processes(["sh", "-c", script]), 20, "the shell is gone")
    for one in processes(["sleep", "86432"]):  # what it had started is the sandbox's
        one.kill()


async def test_the_command_of_an_agent_that_was_killed(cri: CriBench) -> None:
    bench, clock = SessionsBench(cri, real=True), SystemClock()
    member = await cri.running(await cri.capsule())
    began = clock.now()
    async with bench.exec(member, "sleep", "86433"):
        await eventually(lambda: processes(["sleep", "86433"]), 20, "the command runs")
    command = ["sleep", "86433"]
    await cri.pods.end_exec(member, "0" * 64, command, began - timedelta(days=1))
    assert processes(command)  # another one was meant
    await cri.pods.end_exec(member, "0" * 64, command, began)
    await eventually(lambda: not processes(command), 20, "the command is gone")
