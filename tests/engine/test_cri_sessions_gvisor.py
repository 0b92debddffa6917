"""Commands in a sandbox with a kernel of its own, which no process of this host is: their shim ends them."""

from __future__ import annotations

from datetime import timedelta

from tests.support.pods import CriBench
from tests.support.sessions import Screen, SessionsBench
from tests.support.wait import eventually
from zun.domain.clock import SystemClock


async def test_commands_are_ended(cri: CriBench) -> None:
    bench, clock = SessionsBench(cri, real=True), SystemClock()
    member = await cri.running(await cri.capsule(handler="runsc", memory_mib=256))

    async def sleeping() -> list[str]:
        return [line.split()[-1] for line in (await cri.sh(member, "ps", 60)).splitlines() if "sleep 8642" in line]

    async with bench.exec(member, "cat") as other:
        for seconds in ("86420", "86421"):  # what the first one taught is used by the second
            async with bench.exec(member, "sleep", seconds) as session:
                await eventually(sleeping, 60, "the command runs")
                await session.end_command()
                await Screen(session).rest()
                await eventually(lambda: _none(sleeping), 60, "the command is gone")
        await other.write(b"alive")
        await other.close_stdin()
        assert await Screen(other).rest() == b"alive"
    began = clock.now()
    async with bench.exec(member, "sleep", "86422"):
        await eventually(sleeping, 60, "the command runs")
    assert await sleeping() == ["86422"]  # nobody ended it
    await cri.pods.end_exec(member, "0" * 64, ["sleep", "86422"], began - timedelta(days=1))
    assert await sleeping() == ["86422"]  # another one was meant
    await cri.pods.end_exec(member, "0" * 64, ["sleep", "86422"], began)
    await eventually(lambda: _none(sleeping), 60, "the command is gone")


async def _none(found: object) -> bool:
    assert callable(found)
    return not await found()
