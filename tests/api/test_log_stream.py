"""``GET /v1/containers/{id}/logs/stream``: each line once, also over restarts, to those who may read the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import told
from tests.support.simulated_node import SimulatedCloud, simulated_cloud
from tests.support.sse import Sent, parse
from tests.support.wait import eventually
from zun.api import event_stream
from zun.api.v1 import container_log_stream
from zun.compute import log_pieces

LIMIT = 60.0


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[SimulatedCloud]:
    async with simulated_cloud(tmp_path, api__stream_seconds=LIMIT, api__stream_keepalive=0.3) as made:
        yield made


async def stream(cloud: SimulatedCloud, uuid: str, after: str | None = None, **query: Any) -> list[Sent]:
    """All of a stream, which has to end by itself."""
    headers = {} if after is None else {"Last-Event-ID": after}
    answer = await cloud.http.get(f"/v1/containers/{uuid}/logs/stream", params=query, headers=headers, timeout=LIMIT)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    return list(parse(iter(answer.text.split("\n"))))


def lines(events: list[Sent]) -> list[str]:
    return [one.data["line"] for one in events if one.name == "log"]


async def running(cloud: SimulatedCloud, **body: Any) -> str:
    uuid = await cloud.create(**body)
    await cloud.wait(uuid, "Running")
    return uuid


async def followed(cloud: SimulatedCloud, uuid: str, **query: Any) -> asyncio.Task[list[Sent]]:
    """A stream whose node waits for the next line."""
    before = cloud.runtime.faults.calls["log_records"]
    task = asyncio.create_task(stream(cloud, uuid, **query))
    await eventually(lambda: cloud.runtime.faults.calls["log_records"] >= before + 2, 20, "it is followed")
    return task


async def test_lines_come_as_they_are_written_until_the_container_has_stopped(cloud: SimulatedCloud) -> None:
    uuid = await running(cloud)
    cloud.runtime.write(uuid, "one\ntwo\n")
    following = await followed(cloud, uuid)
    cloud.runtime.write(uuid, "three\n", stream="stderr")
    cloud.runtime.write(uuid, "prompt ")
    await cloud.http.post(f"/v1/containers/{uuid}/stop")
    events = await following
    assert [(one.name, one.data) for one in events[:-1]] == [
        ("log", {"stream": "stdout", "line": "one"}),
        ("log", {"stream": "stdout", "line": "two"}),
        ("log", {"stream": "stderr", "line": "three"}),
        ("log", {"stream": "stdout", "line": "prompt ", "partial": True}),
    ]
    end = {"reason": "stopped", "status": "Stopped", "status_reason": None, "exit_code": 137}
    assert (events[-1].name, events[-1].data) == ("end", end)
    assert len({one.ident for one in events[:-1]}) == 4
    for place, one in enumerate(events[:-1]):  # wherever it broke off
        assert await stream(cloud, uuid, one.ident, tail=1) == events[place + 1 :]


async def test_parameters_say_where_it_begins_and_what_it_has(cloud: SimulatedCloud) -> None:
    uuid = await running(cloud)
    cloud.runtime.write(uuid, "one\n")
    cloud.runtime.write(uuid, "two\n", stream="stderr")
    cloud.runtime.write(uuid, "three\n")
    await cloud.http.post(f"/v1/containers/{uuid}/stop")
    await cloud.wait(uuid, "Stopped")
    assert lines(await stream(cloud, uuid, tail=2)) == ["two", "three"]
    assert lines(await stream(cloud, uuid, tail=0)) == []
    assert lines(await stream(cloud, uuid, stdout=False)) == ["two"]
    assert lines(await stream(cloud, uuid, stderr=False)) == ["one", "three"]
    assert lines(await stream(cloud, uuid, since="2001-01-01 00:00:00,000")) == ["one", "two", "three"]
    assert lines(await stream(cloud, uuid, since=99999999999)) == []
    first = (await stream(cloud, uuid, timestamps=True))[0]
    assert first.data["time"].endswith("Z")
    assert len(first.data["time"]) == 30


async def test_from_now_on(cloud: SimulatedCloud) -> None:
    uuid = await running(cloud)
    cloud.runtime.write(uuid, "before\n")
    following = await followed(cloud, uuid, tail=0)
    cloud.runtime.write(uuid, "after\n")
    await cloud.http.post(f"/v1/containers/{uuid}/stop")
    assert lines(await following) == ["after"]


async def test_an_agent_that_restarts_is_waited_for(cloud: SimulatedCloud) -> None:
    uuid = await running(cloud)
    cloud.runtime.write(uuid, "one\n")
    following = await followed(cloud, uuid)
    for number in range(3):
        cloud.runtime.write(uuid, f"with {number}\n")
        await cloud.die()
        cloud.runtime.write(uuid, f"without {number}\n")
        await cloud.live()
    await cloud.wait(uuid, "Running")
    cloud.runtime.write(uuid, "last\n")
    await cloud.http.post(f"/v1/containers/{uuid}/stop")
    events = await following
    expected = ["one", *(f"{word} {number}" for number in range(3) for word in ("with", "without")), "last"]
    assert lines(events) == expected
    assert {one.name for one in events} <= {"log", "waiting", "end"}


async def test_a_node_that_does_not_answer_is_told_once(cloud: SimulatedCloud) -> None:
    uuid = await running(cloud)
    await cloud.die()
    following = asyncio.create_task(stream(cloud, uuid))
    calls = cloud.api.parts.bus
    tries = 0
    real = calls.call

    async def counted(*given: Any) -> Any:
        nonlocal tries
        tries += 1
        return await real(*given)

    calls.call = counted  # type: ignore[method-assign]
    await eventually(lambda: tries >= 2, 20, "the node is asked again")
    await cloud.live()
    cloud.runtime.write(uuid, "back\n")
    await cloud.http.post(f"/v1/containers/{uuid}/stop")
    events = await following
    assert [one.name for one in events] == ["waiting", "log", "end"]


async def test_an_answer_that_takes_long_is_waited_for(cloud: SimulatedCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    uuid = await running(cloud)
    cloud.runtime.write(uuid, "one\n")
    said: list[str | None] = []

    def keep_alive(ident: str | None) -> bytes:
        said.append(ident)
        return event_stream.keep_alive(ident)

    monkeypatch.setattr(container_log_stream, "keep_alive", keep_alive)
    cloud.runtime.faults.hang("log_records")
    following = asyncio.create_task(stream(cloud, uuid))
    await eventually(lambda: len(said) >= 2, 30, "the silence is broken")
    assert cloud.runtime.faults.calls["log_records"] == 1
    cloud.runtime.faults.resume("log_records")
    await cloud.http.post(f"/v1/containers/{uuid}/stop")
    assert [one.name for one in await following] == ["log", "end"]


async def test_an_engine_that_does_not_answer_is_waited_for(cloud: SimulatedCloud) -> None:
    uuid = await running(cloud)
    cloud.runtime.write(uuid, "one\n")
    cloud.runtime.faults.unreachable = True
    following = await followed(cloud, uuid)
    cloud.runtime.faults.unreachable = False
    await cloud.http.post(f"/v1/containers/{uuid}/stop")
    assert [one.name for one in await following] == ["waiting", "log", "end"]


async def test_a_container_that_is_deleted_ends_it(cloud: SimulatedCloud) -> None:
    uuid = await running(cloud)
    cloud.runtime.write(uuid, "one\n")
    following = await followed(cloud, uuid)
    await cloud.http.delete(f"/v1/containers/{uuid}", params={"force": True})
    events = await following
    assert lines(events) == ["one"]
    assert (events[-1].name, events[-1].data) == ("end", {"reason": "deleted"})


async def test_a_container_is_followed_from_before_its_start(cloud: SimulatedCloud) -> None:
    uuid = await cloud.create(run=False)
    await cloud.wait(uuid, "Created")
    following = await followed(cloud, uuid)
    await cloud.http.post(f"/v1/containers/{uuid}/start")
    await cloud.wait(uuid, "Running")
    cloud.runtime.write(uuid, "hello\n")
    await cloud.http.post(f"/v1/containers/{uuid}/stop")
    assert lines(await following) == ["hello"]


async def test_a_member_of_a_capsule_by_its_uuid(cloud: SimulatedCloud) -> None:
    capsule = await cloud.create_capsule()
    shown = await cloud.wait_capsule(capsule, "Running")
    (member,) = [one["uuid"] for one in shown["containers"]]
    cloud.pods.write(member, "inside\n")
    before = cloud.pods.faults.calls["log_records"]
    following = asyncio.create_task(stream(cloud, member))
    await eventually(lambda: cloud.pods.faults.calls["log_records"] >= before + 2, 20, "it is followed")
    cloud.pods.write(member, "more\n")
    await eventually(lambda: cloud.pods.faults.calls["log_records"] >= before + 4, 20, "it was read")
    await cloud.http.delete(f"/v1/capsules/{capsule}")
    events = await following
    assert lines(events) == ["inside", "more"]
    assert events[-1].name == "end"


async def test_more_than_a_piece_comes_whole(cloud: SimulatedCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_pieces, "_RECORDS", 10)
    uuid = await running(cloud)
    cloud.runtime.write(uuid, "".join(f"line {number}\n" for number in range(105)))
    await cloud.http.post(f"/v1/containers/{uuid}/stop")
    await cloud.wait(uuid, "Stopped")
    assert lines(await stream(cloud, uuid)) == [f"line {number}" for number in range(105)]


async def test_what_is_not_kept_any_more_is_told(cloud: SimulatedCloud) -> None:
    uuid = await running(cloud)
    cloud.runtime.write(uuid, "kept\n")
    await cloud.http.post(f"/v1/containers/{uuid}/stop")
    await cloud.wait(uuid, "Stopped")
    events = await stream(cloud, uuid, "1000000000-o-1")
    assert [(one.name, one.data) for one in events[:1]] == [("lost", {"after": "1000000000-o-1"})]
    assert lines(events) == ["kept"]


async def test_too_many_that_wait_at_a_node_are_served_too(
    cloud: SimulatedCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pieces, "_WAITING", 0)
    uuid = await running(cloud)
    following = await followed(cloud, uuid)
    cloud.runtime.write(uuid, "one\n")
    await cloud.http.post(f"/v1/containers/{uuid}/stop")
    events = await following
    assert (lines(events), events[-1].name) == (["one"], "end")


async def test_only_who_may_read_the_log(cloud: SimulatedCloud) -> None:
    uuid = await running(cloud)
    path = f"/v1/containers/{uuid}/logs/stream"
    stranger = cloud.api.client(project_id="other", user_id="else")
    assert told(await stranger.get(path))[0] == 404
    assert told(await stranger.get(path, headers={"Last-Event-ID": "1-o-1"}))[0] == 404
    assert (await cloud.api.client(token=None).get(path)).status_code == 401
    assert told(await cloud.http.get("/v1/containers/no-such/logs/stream"))[0] == 404
    assert (await cloud.http.post(path)).status_code == 405


async def test_the_rule_of_the_log_is_asked(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text('"container:logs": "!"\n')
    async with simulated_cloud(tmp_path, api__policy_file=str(tmp_path / "policy.yaml")) as cloud:
        uuid = await running(cloud)
        answer = await cloud.http.get(f"/v1/containers/{uuid}/logs/stream")
        assert told(answer)[:2] == (403, "policy-not-authorized")
        assert "container:logs" in told(answer)[2]


@pytest.mark.parametrize(
    "query", [{"stdout": "false", "stderr": "false"}, {"since": "yesterday"}, {"stdout": "perhaps"}, {"nonsense": "1"}]
)
async def test_bad_parameters_are_refused(cloud: SimulatedCloud, query: dict[str, str]) -> None:
    uuid = await running(cloud)
    assert told(await cloud.http.get(f"/v1/containers/{uuid}/logs/stream", params=query))[0] == 400


@pytest.mark.parametrize("ident", ["x", "0", "1-o", "1-x-1", "-1-o-1", f"{'9' * 30}-o-1"])
async def test_an_id_that_is_none_is_refused(cloud: SimulatedCloud, ident: str) -> None:
    uuid = await running(cloud)
    answer = await cloud.http.get(f"/v1/containers/{uuid}/logs/stream", headers={"Last-Event-ID": ident})
    assert told(answer)[:2] == (400, "invalid-value")


async def test_no_more_than_there_is_room_for(tmp_path: Path) -> None:
    async with simulated_cloud(tmp_path, api__log_streams=0) as cloud:
        uuid = await running(cloud)
        assert told(await cloud.http.get(f"/v1/containers/{uuid}/logs/stream"))[0] == 503
