"""Equal questions asked at once: how many calls they are, and whose answer they get."""

from __future__ import annotations

import asyncio

from tests.support.wait import eventually
from zun.openstack.together import Together


class Service:
    """Answers with how many times it was asked so far, once it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.open = asyncio.Event()
        self.fault: Exception | None = None

    async def ask(self) -> int:
        self.asked += 1
        mine = self.asked
        await self.open.wait()
        if self.fault is not None:
            raise self.fault
        return mine


async def begun(service: Service, times: int) -> None:
    await eventually(lambda: service.asked >= times, 30, "the call has begun")


async def test_who_comes_while_a_call_is_under_way_shares_the_next() -> None:
    service, together = Service(), Together[int]()
    first = asyncio.create_task(together.ask("key", service.ask))
    await begun(service, 1)
    later = [asyncio.create_task(together.ask("key", service.ask)) for _ in range(19)]
    await asyncio.sleep(0)
    assert service.asked == 1
    service.open.set()
    assert await first == 1
    assert await asyncio.gather(*later) == [2] * 19, "an answer is never older than its question"
    assert await together.ask("key", service.ask) == 3, "nothing is kept"
    assert not together._now
    assert not together._next


async def test_other_questions_are_calls_of_their_own() -> None:
    service, together = Service(), Together[int]()
    service.open.set()
    assert sorted(await asyncio.gather(*(together.ask(key, service.ask) for key in "abc"))) == [1, 2, 3]


async def test_one_who_leaves_ends_it_for_nobody_else() -> None:
    service, together = Service(), Together[int]()
    tasks = [asyncio.create_task(together.ask("key", service.ask)) for _ in range(3)]
    await begun(service, 1)
    tasks[0].cancel()
    tasks[1].cancel()
    service.open.set()
    assert await tasks[2] == 2


async def test_a_fault_is_told_to_all_and_is_over_then() -> None:
    service, together = Service(), Together[int]()
    service.fault = ValueError("no")
    tasks = [asyncio.create_task(together.ask("key", service.ask)) for _ in range(3)]
    await begun(service, 1)
    service.open.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [ValueError] * 3
    assert service.asked == 1, "those who wait for the next call are not kept waiting for its fault too"
    service.fault = None
    assert await together.ask("key", service.ask) == 2
