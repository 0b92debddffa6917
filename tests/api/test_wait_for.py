"""``?wait_for=<status>&timeout=<seconds>``: the answer comes with the status, or when that cannot come any more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.support.api import fault, told
from tests.support.containers import Plane, make_plane
from tests.support.wait import eventually
from zun.api.app import create_app
from zun.api.policy import PolicyEnforcer
from zun.control.status_waits import StatusWaits
from zun.store.database import DatabaseUnavailable
from zun.store.tables import containers

LONG = "600"
"""Seconds: what is awaited comes first, or the test fails by its own deadline."""
SOON = 60.0
SPEC = {"containers": [{"image": "cirros"}]}
TEMPLATE = {"template": {"kind": "capsule", "capsuleVersion": "beta", "metadata": {}, "spec": SPEC}}


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    async with make_plane(tmp_path, {"api.wait_interval": 0.02, "api.max_wait": 600}) as made:
        await made.add_host(capsules=True)
        yield made


async def made(plane: Plane, kind: str, status: str = "Creating") -> str:
    """The URL of one."""
    body: dict[str, Any] = TEMPLATE if kind == "capsules" else {"image": "cirros"}
    answer = await plane.client().post(f"/v1/{kind}", json=body)
    assert answer.status_code == 202, answer.text
    if status != "Creating":
        await plane.settle(answer.json()["uuid"], status)
    return f"/v1/{kind}/{answer.json()['uuid']}"


async def ask(plane: Plane, url: str, status: str = "Running", timeout: str = LONG) -> httpx.Response:
    async with asyncio.timeout(SOON):
        return await plane.client().get(url, params={"wait_for": status, "timeout": timeout})


async def _looking(plane: Plane) -> bool:
    return any(task.get_name() == "status-waits" for task in asyncio.all_tasks())


async def waiting(plane: Plane, url: str, status: str = "Running") -> asyncio.Task[httpx.Response]:
    """A request that waits by now."""
    task = asyncio.create_task(ask(plane, url, status))
    await eventually(lambda: task.done() or _looking(plane), SOON, "the request waits")
    assert not task.done(), task.result().text
    return task


KINDS = pytest.mark.parametrize("kind", ["containers", "capsules"])


@KINDS
async def test_answers_when_the_status_comes(plane: Plane, kind: str) -> None:
    url = await made(plane, kind)
    task = await waiting(plane, url)
    await plane.settle(url.rsplit("/", 1)[1], "Running")
    answer = await task
    assert answer.status_code == 200
    assert answer.json() == (await plane.client().get(url)).json()
    assert answer.json()["status"] == "Running"


@KINDS
async def test_answers_when_the_status_is_there(plane: Plane, kind: str) -> None:
    url = await made(plane, kind, "Running")
    assert (await ask(plane, url)).json()["status"] == "Running"
    assert not await _looking(plane)


@KINDS
async def test_answers_when_it_can_come_no_more(plane: Plane, kind: str) -> None:
    url = await made(plane, kind)
    task = await waiting(plane, url)
    await plane.settle(url.rsplit("/", 1)[1], "Error", status_reason="It was not to be.")
    assert (await task).json()["status"] == "Error"
    assert (await ask(plane, url)).json()["status"] == "Error"


@KINDS
async def test_answers_with_the_present_state_when_time_is_up(plane: Plane, kind: str) -> None:
    url = await made(plane, kind)
    for timeout in ("0", "0.05"):
        answer = await ask(plane, url, timeout=timeout)
        assert (answer.status_code, answer.json()["status"]) == (200, "Creating")


@KINDS
async def test_is_told_when_it_is_gone(plane: Plane, kind: str) -> None:
    """What a delete is waited for with: 404, as from any other look."""
    url = await made(plane, kind, "Stopped")
    assert (await plane.client().delete(url)).status_code == 204
    task = await waiting(plane, url, "Deleted")
    async with plane.db.write() as connection:
        await connection.execute(containers.delete())
    answer = await task
    assert told(answer)[:2] == (404, "container-not-found")


async def test_by_name_and_for_a_job_that_ends(plane: Plane) -> None:
    await plane.create(plane.client(), "Running", name="job")
    task = await waiting(plane, "/v1/containers/job", "Stopped")
    uuid = (await plane.client().get("/v1/containers/job")).json()["uuid"]
    await plane.set_row(uuid, status="Stopped")
    assert (await task).json()["status"] == "Stopped"


async def test_time_is_bounded_by_the_option(tmp_path: Path) -> None:
    async with make_plane(tmp_path, {"api.max_wait": 0.05}) as plane:
        await plane.add_host()
        url = await made(plane, "containers")
        assert (await ask(plane, url)).json()["status"] == "Creating"
        async with asyncio.timeout(SOON):
            answer = await plane.client().get(f"{url}?wait_for=Running")
        assert answer.json()["status"] == "Creating"


@KINDS
@pytest.mark.parametrize(
    "query",
    ["wait_for=", "wait_for=running", "wait_for=Bogus", "wait_for=Running&wait_for=Stopped",
     "wait_for=Running&timeout=", "wait_for=Running&timeout=-1", "wait_for=Running&timeout=1e3",
     "wait_for=Running&timeout=nan", "wait_for=Running&timeout=1&timeout=2", "wait_for=Running&timeout=%D9%A1"],
)  # fmt: skip
async def test_bad_values_are_refused(plane: Plane, kind: str, query: str) -> None:
    url = await made(plane, kind)
    assert told(await plane.client().get(f"{url}?{query}"))[:2] == (400, "invalid-value")


async def test_timeout_alone_is_ignored_as_ever(plane: Plane) -> None:
    url = await made(plane, "containers")
    assert (await plane.client().get(f"{url}?timeout=soon")).status_code == 200


async def test_a_foreign_one_is_not_found(plane: Plane) -> None:
    url = await made(plane, "containers")
    answer = await plane.client(project_id="proj2").get(f"{url}?wait_for=Running&timeout={LONG}")
    assert fault(answer)["status"] == 404


async def test_many_waiters_are_one_query(plane: Plane) -> None:
    urls = [await made(plane, "containers") for _ in range(5)]
    statements: list[str] = []

    @sa.event.listens_for(plane.db._reader.sync_engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("SELECT containers.uuid, containers.status, containers.task_state"):
            statements.append(statement)

    tasks = [await waiting(plane, url) for url in urls for _ in range(10)]
    await eventually(lambda: len(asyncio.all_tasks()) > 100, SOON, "all of them wait")
    before, started = len(statements), time.monotonic()
    await eventually(lambda: len(statements) >= before + 5, SOON, "it was looked again")
    looks = (time.monotonic() - started) / 0.02
    assert len(statements) - before <= looks + 2  # one a turn, however many wait
    for url in urls:
        await plane.settle(url.rsplit("/", 1)[1], "Running")
    assert {answer.json()["status"] for answer in await asyncio.gather(*tasks)} == {"Running"}
    await eventually(lambda: not any(t.get_name() == "status-waits" for t in asyncio.all_tasks()), SOON, "it rests")


async def test_a_database_that_is_away_for_a_moment_ends_no_wait(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    url, away = await made(plane, "containers"), 0
    real = StatusWaits._look

    async def look(self: StatusWaits) -> None:
        nonlocal away
        if away < 3:
            away += 1
            raise DatabaseUnavailable("The database does not answer.")
        await real(self)

    monkeypatch.setattr(StatusWaits, "_look", look)
    task = await waiting(plane, url)
    await plane.settle(url.rsplit("/", 1)[1], "Running")
    assert (await task).json()["status"] == "Running"
    assert away == 3


async def test_ends_at_once_when_the_process_stops(plane: Plane) -> None:
    stopping = asyncio.Event()
    plane.api.app = create_app(plane.api.control, plane.api.identity, PolicyEnforcer(plane.api.conf), stopping=stopping)
    url = await made(plane, "containers")
    task = await waiting(plane, url)
    stopping.set()
    answer = await task
    assert (answer.status_code, answer.json()["status"]) == (200, "Creating")
    assert (await ask(plane, url)).json()["status"] == "Creating"  # nothing waits any more


async def test_a_client_that_goes_is_not_waited_for(plane: Plane) -> None:
    url = await made(plane, "containers")
    gone, sent = asyncio.Event(), []

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(name.lower().encode(), value.encode()) for name, value in plane.client().headers.items()]
    scope = {
        "type": "http", "method": "GET", "path": url, "raw_path": url.encode(), "headers": headers,
        "query_string": f"wait_for=Running&timeout={LONG}".encode(), "scheme": "http", "server": ("localhost", 80),
    }  # fmt: skip
    task = asyncio.create_task(plane.api.app(scope, receive, send))
    await eventually(lambda: _looking(plane), SOON, "the request waits")
    gone.set()
    async with asyncio.timeout(SOON):
        await task
    assert sent == []
    await eventually(lambda: not any(t.get_name() == "status-waits" for t in asyncio.all_tasks()), SOON, "it rests")


async def test_what_the_same_process_writes_is_seen_at_once(tmp_path: Path) -> None:
    """Where API and agent are one, nobody waits for the next look, which is a minute away."""
    async with make_plane(tmp_path, {"api.wait_interval": 60, "api.max_wait": 600}) as plane:
        await plane.add_host()
        url = await made(plane, "containers")
        task = await waiting(plane, url)
        async with asyncio.timeout(SOON / 2):
            await plane.settle(url.rsplit("/", 1)[1], "Running")
            answer = await task
        assert answer.json()["status"] == "Running"
