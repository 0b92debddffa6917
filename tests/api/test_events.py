"""``GET /v1/events``: what happens to a project's containers is told, once, in order, to those who may hear it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.test_capsules import create as create_capsule
from tests.api.test_capsules import template
from tests.support.containers import Plane, make_plane, told
from tests.support.live import Live, live
from tests.support.sse import Sent, listen, parse
from tests.support.wait import wait_until
from zun.api import event_stream
from zun.control import reaper
from zun.domain.caller import Caller
from zun.store import capsules, status_events

URL = "/v1/events"
LONG = {"api.stream_seconds": "60"}


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    async with make_plane(tmp_path) as made:
        await made.add_host(capsules=True)
        yield made


@pytest.fixture(scope="module")
def zun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("events"), {"api": {"stream_keepalive": 0.2}}) as product:
        yield product


async def heard(plane: Plane, after: int | str | None = None, query: str = "", **who: Any) -> list[Sent]:
    """All events of a stream that ends by time, without the ``end``."""
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    answer = await plane.client(**who).get(f"{URL}{query}", headers=headers)
    assert answer.status_code == 200, answer.text
    found = list(parse(iter(answer.text.split("\n"))))
    assert (found[-1].name, found[-1].data) == ("end", {"reason": "time"})
    return found[:-1]


def of(events: list[Sent]) -> list[tuple[str, str | None, str | None]]:
    return [(one.name, one.data["previous_status"], one.data["status"]) for one in events]


async def test_each_change_of_status_is_told_once(plane: Plane) -> None:
    made = await plane.create(plane.client(), name="told")
    await plane.set_row(made["uuid"], status="Running", addresses={})  # nothing new
    await plane.settle(made["uuid"], "Stopped", status_reason="Exited")
    await plane.client().delete(f"/v1/containers/{made['uuid']}")
    events = await heard(plane, 0)
    assert of(events) == [
        ("created", None, "Creating"),
        ("status", "Creating", "Running"),
        ("status", "Running", "Stopped"),
        ("status", "Stopped", "Deleting"),
    ]
    assert [one.ident for one in events] == ["1", "2", "3", "4"]
    assert {(one.data["uuid"], one.data["name"], one.data["type"]) for one in events} == {
        (made["uuid"], "told", "container")
    }
    assert events[2].data["status_reason"] == "Exited"
    assert events[2].data["time"].endswith("+00:00")
    assert [one.ident for one in await heard(plane, 2)] == ["3", "4"]
    assert await heard(plane) == [], "without an id, from now on"


async def test_capsules_and_their_members(plane: Plane) -> None:
    capsule = await create_capsule(plane.client(), template({"image": "busybox"}))
    events = await heard(plane, 0)
    assert [(one.name, one.data["type"], one.data["capsule_uuid"]) for one in events] == [
        ("created", "capsule", None),
        ("created", "capsule_container", capsule["uuid"]),
    ]
    async with plane.db.write() as connection:
        assert await capsules.remove(connection, capsule["uuid"], {})
    gone = await heard(plane, 2)
    assert {one.name for one in gone} == {"deleted"}
    assert [(one.data["type"], one.data["status"]) for one in gone] == [("capsule", None), ("capsule_container", None)]


async def test_only_of_the_own_project(plane: Plane) -> None:
    mine = await plane.create(plane.client())
    other = await plane.create(plane.client(project_id="other", user_id="else"))
    assert {one.data["uuid"] for one in await heard(plane, 0)} == {mine["uuid"]}
    assert {one.data["uuid"] for one in await heard(plane, 0, project_id="other", user_id="else")} == {other["uuid"]}
    answer = await plane.client().get(f"{URL}?all_projects=true")
    assert told(answer)[:2] == (403, "policy-not-authorized")
    admin = await plane.api.admin.get(f"{URL}?all_projects=true", headers={"Last-Event-ID": "0"})
    found = list(parse(iter(admin.text.split("\n"))))[:-1]
    assert {one.data["uuid"] for one in found} == {mine["uuid"], other["uuid"]}


async def test_what_is_cleaned_is_told(plane: Plane) -> None:
    await plane.create(plane.client())
    plane.clock.ahead = timedelta(days=2)
    await reaper.reap_once(plane.api.control, "owner")
    status, code, title = told(await plane.client().get(URL, headers={"Last-Event-ID": "1"}))
    assert (status, code) == (410, "events-gone")
    assert "Events up to 2 are not kept" in title
    assert await heard(plane, 2) == []
    await plane.create(plane.client())
    assert [one.ident for one in await heard(plane, 2)] == ["3", "4"], "numbers are not given twice"


@pytest.mark.parametrize("ident", ["x", "-1", "7", "1e3", "9" * 30])
async def test_an_id_that_was_never_given(plane: Plane, ident: str) -> None:
    answer = await plane.client().get(URL, headers={"Last-Event-ID": ident})
    assert told(answer)[:2] == (400, "invalid-value")


async def test_who_is_not_known_hears_nothing(plane: Plane) -> None:
    assert (await plane.client(token=None).get(URL)).status_code == 401
    assert told(await plane.client().get(f"{URL}?nonsense=1"))[0] == 400
    assert (await plane.client().post(URL)).status_code == 405
    answer = await plane.client().get("/v1/containers", headers={"Accept": "text/event-stream"})
    assert answer.status_code == 406


async def test_no_more_than_there_is_room_for(tmp_path: Path) -> None:
    async with make_plane(tmp_path, {"api.event_listeners": "0"}) as plane:
        assert told(await plane.client().get(URL))[:2] == (503, "")


async def test_the_stream_ends_with_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "_CHECK_EVERY", 0.05)
    async with make_plane(tmp_path, LONG) as plane:
        client = plane.client()
        name = client.headers["X-Auth-Token"]
        lookups = 0

        async def authenticate(token: str, service_token: str | None = None) -> Caller | None:
            nonlocal lookups
            lookups += 1
            return plane.api.identity.callers.get(token) if lookups < 4 else None

        monkeypatch.setattr(plane.api.identity, "authenticate", authenticate)
        answer = await client.get(URL)
        (end,) = parse(iter(answer.text.split("\n")))
        assert (end.name, end.data, lookups) == ("end", {"reason": "token"}, 4), name


async def test_rights_that_changed_end_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "_CHECK_EVERY", 0.05)
    async with make_plane(tmp_path, LONG) as plane:
        callers = iter([Caller("root", "p", frozenset({"admin"})), Caller("root", "p", frozenset({"member"}))])

        async def authenticate(token: str, service_token: str | None = None) -> Caller | None:
            return next(callers)

        client = plane.client("admin")
        monkeypatch.setattr(plane.api.identity, "authenticate", authenticate)
        answer = await client.get(f"{URL}?all_projects=true")
        assert next(parse(iter(answer.text.split("\n")))).data == {"reason": "token"}


# -- a process, as clients meet it ------------------------------------------------------------------


def _until(events: Iterator[Sent], name: str, status: str | None) -> list[Sent]:
    found = []
    for one in events:
        found.append(one)
        if (one.name, one.data["status"]) == (name, status):
            return found
    raise AssertionError(f"the stream ended before {name} {status}: {found}")


def test_a_life_is_heard_as_it_happens(zun: Live) -> None:
    token = zun.token("life")
    with zun.http(token) as client, listen(client, URL) as (head, events):
        assert head.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert head.headers["cache-control"] == "no-cache, no-store"
        assert head.headers["openstack-api-version"] == "container 1.40"
        with zun.http(token) as other:
            uuid = other.post("/v1/containers?run=true", json={"image": "busybox"}).json()["uuid"]
            first = _until(events, "status", "Running")
            other.delete(f"/v1/containers/{uuid}?stop=true")
            second = _until(events, "deleted", None)
    everything = first + second
    numbers = [int(one.ident) for one in everything]
    assert numbers == sorted(set(numbers))
    for place in range(len(everything) - 1):  # wherever it broke off
        with zun.http(token) as client, listen(client, URL, everything[place].ident) as (_, events):
            assert _until(events, "deleted", None) == everything[place + 1 :]


def test_a_client_that_leaves_gives_its_place_back(zun: Live) -> None:
    def listeners() -> float:
        lines = httpx.get(f"{zun.url}/metrics", timeout=30).text.splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("zun_api_event_listeners "))

    with zun.http(zun.admin) as client, listen(client, URL) as (head, _):
        lines = head.iter_lines()
        assert next(lines) == "retry: 2000"
        assert any(line == ": keep-alive" for line in lines)
        wait_until(lambda: listeners() == 1, 30, "one listens")
    wait_until(lambda: listeners() == 0, 30, "its place is free")


def test_a_stop_ends_it(tmp_path: Path) -> None:
    product = Live(tmp_path)
    with contextlib.ExitStack() as stack:
        stack.callback(product.stop)
        product.start()
        client = stack.enter_context(product.http(product.admin))
        _, events = stack.enter_context(listen(client, URL))
        _, silent = stack.enter_context(listen(client, URL))  # of which nothing is read
        begun = time.monotonic()
        assert product.process is not None
        product.process.terminate()
        assert [(one.name, one.data) for one in events] == [("end", {"reason": "shutdown"})]
        assert product.process.wait(60) == 0
        assert "Traceback" not in product.log(), (product.log(), time.monotonic() - begun)
        assert silent is not None


async def test_nothing_is_written_twice_where_nothing_changed(plane: Plane) -> None:
    made = await plane.create(plane.client())
    async with plane.db.write() as connection:
        while await status_events.number(connection):
            pass
        _, last = await status_events.bounds(connection)
    await plane.set_row(made["uuid"], status="Running")
    assert await heard(plane, last) == []
