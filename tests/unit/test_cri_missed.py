"""Ends that a killed containerd has missed: believed at the second look, and no call waits for them for ever."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from zun.domain.errors import EngineError, EngineNotFound
from zun.domain.observed import Observed
from zun.runtime.cri import missed as module
from zun.runtime.cri.client import CriClient
from zun.runtime.cri.missed import Missed, as_ended
from zun.runtime.cri.ongoing import Ongoing
from zun.runtime.cri.protocol import TASKS, message

RUNNING, STOPPED = 2, 3


class Engine(CriClient):
    """containerd's tasks, and a CRI that does not end what it believes to run. ``tasks``: id -> status."""

    def __init__(self, **tasks: int) -> None:
        super().__init__(SimpleNamespace(cri=SimpleNamespace(endpoint="unix:///nowhere", request_timeout=60)))
        self.tasks = tasks
        self.silent = False
        self.asked: list[str] = []

    async def call(self, method: str, *, extra: float = 0.0, **fields: Any) -> Any:
        self.asked.append(method)
        if self.silent:
            raise EngineError("no such call")
        if method == "Tasks.List":
            return message(f"{TASKS}.ListTasksResponse")(tasks=[self._process(one) for one in self.tasks])
        if method == "Tasks.Get":
            if fields["container_id"] not in self.tasks:
                raise EngineNotFound("no task")
            return message(f"{TASKS}.GetResponse")(process=self._process(fields["container_id"]))
        if method == "Tasks.Delete":
            del self.tasks[fields["container_id"]]
        return None

    async def repeated(self, method: str, *, extra: float = 0.0, **fields: Any) -> Any:
        self.asked.append(method)
        if STOPPED in self.tasks.values():
            await asyncio.sleep(3600)

    def _process(self, ident: str) -> Any:
        code = 7 if self.tasks[ident] == STOPPED else 0
        return message(f"{TASKS}.Process")(id=ident, status=self.tasks[ident], exit_status=code)


def missed(engine: Engine, again: float = 0.05) -> Missed:
    return Missed(engine, Ongoing(), again)


async def test_an_end_is_believed_when_it_is_seen_again_some_time_later() -> None:
    looks = missed(Engine(a=STOPPED, b=RUNNING))
    assert await looks.among(["a", "b"]) == {}
    await asyncio.sleep(0.06)
    found = await looks.among(["a", "b"])
    assert {one: end.exit_code for one, end in found.items()} == {"a": 7}


async def test_what_has_no_task_at_all_ended_with_a_code_that_nobody_knows() -> None:
    found = await missed(Engine()).twice(["a"])
    assert found["a"].exit_code == 255


async def test_one_that_runs_again_is_no_suspect_any_more() -> None:
    engine = Engine(a=STOPPED)
    looks = missed(engine)
    await looks.among(["a"])
    engine.tasks["a"] = RUNNING
    await asyncio.sleep(0.06)
    assert await looks.among(["a"]) == {}
    engine.tasks["a"] = STOPPED
    assert await looks.among(["a"]) == {}


async def test_an_engine_that_does_not_tell_is_believed() -> None:
    engine = Engine(a=STOPPED)
    engine.silent = True
    assert await missed(engine).twice(["a"]) == {}


async def test_the_truth_of_a_member_is_told() -> None:
    looks = missed(Engine(a=STOPPED), again=0.0)
    found = as_ended(Observed("uuid", "a", "running"), (await looks.among(["a"]))["a"])
    assert (found.state, found.exit_code) == ("exited", 7)
    assert found.finished_at is not None


async def test_a_call_that_waits_for_an_end_that_was_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    engine = Engine(a=STOPPED, b=RUNNING)
    async with asyncio.timeout(60):
        await missed(engine).end("StopPodSandbox", ["a", "b"], pod_sandbox_id="box")
    assert engine.tasks == {"b": RUNNING}
    assert engine.asked[-3:] == ["Tasks.Delete", "Containers.Delete", "StopPodSandbox"]


async def test_a_call_that_ends_in_time_takes_nothing_from_the_records() -> None:
    engine = Engine(a=RUNNING)
    await missed(engine).end("StopPodSandbox", ["a"], pod_sandbox_id="box")
    assert engine.asked == ["StopPodSandbox"]


async def test_a_call_goes_on_though_its_caller_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    engine, ongoing = Engine(a=STOPPED), Ongoing()
    asking = asyncio.create_task(Missed(engine, ongoing, 0.05).end("StopPodSandbox", ["a"], pod_sandbox_id="box"))
    await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await ongoing.close()
    assert engine.tasks == {}


async def test_what_does_not_end_is_broken_off_with_the_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zun.runtime.cri.ongoing._CLOSE_SECONDS", 0.05)
    ongoing = Ongoing()
    task = ongoing.begin(asyncio.sleep(3600), "endless")
    await ongoing.close()
    assert task.cancelled()
