"""How often the engine is asked while a capsule is made: calls are counted, so that no load of the machine matters."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.support.pods import CriBench
from tests.support.wait import eventually
from zun.runtime.cri import events as module
from zun.runtime.cri.client import CriClient

EACH_CAPSULE = {"ListPodSandbox": 1, "Status": 1, "RunPodSandbox": 1, "PodSandboxStatus": 1}
EACH_MEMBER = {
    "ListPodSandbox": 1,
    "ListContainers": 3,  # is it made, is it still there to be started, what became of it
    "CreateContainer": 1,
    "StartContainer": 1,
    "ContainerStatus": 1,
    "Tasks.Get": 1,
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    made: Counter[str] = Counter()
    send: Any = CriClient._send

    async def counted(self: CriClient, method: str, *given: Any) -> Any:
        made[method] += 1
        return await send(self, method, *given)

    monkeypatch.setattr(CriClient, "_send", counted)
    return made


async def test_calls_of_a_capsule_and_its_member(cri: CriBench, calls: Counter[str]) -> None:
    await cri.seen(await cri.running(await cri.capsule()))  # what images say is remembered from here on
    calls.clear()
    capsule = await cri.capsule()
    assert calls == EACH_CAPSULE
    calls.clear()
    await cri.seen(await cri.running(capsule))
    assert calls == EACH_MEMBER


async def test_events_ask_little_while_something_is_made(
    cri: CriBench, calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not again and again until it is there, however long that takes."""
    monkeypatch.setattr(module, "_MAKING_SECONDS", 60.0)
    async with cri.listening() as events:
        await cri.pods.list()  # once events are heard
        calls.clear()
        capsule = await cri.capsule()
        told: list[str] = []

        async def both() -> bool:
            async with asyncio.timeout(20):
                told.append((await anext(events)).action)
            return {"create", "start"} <= set(told)

        await eventually(both, 30, f"both are told, {told}")
        asked = calls - Counter(EACH_CAPSULE)
        # Each of two events: who is it, before and after it was made, and does CRI agree; a sandbox is asked for as a
        # member first.
        assert asked.total() <= 2 * 6, asked
        assert capsule
