"""Interactive sessions as the API offers them: an address with a token of its own for each, kept hashed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
import pytest
import sqlalchemy as sa

from tests.api.test_capsules import create as create_capsule
from tests.api.test_capsules import template
from tests.support.api import fault
from tests.support.containers import Plane, make_plane
from zun.control import reaper
from zun.domain.errors import Conflict, InvalidValue
from zun.domain.session import hash_token
from zun.store.tables import sessions

URL = "/v1/containers"
EXEC_ID = "0f" * 32


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    async with make_plane(tmp_path) as made:
        await made.add_host(capsules=True)
        yield made


def told(answer: httpx.Response) -> tuple[int, str, str]:
    """Status, code without the service, text."""
    error = fault(answer)
    return error["status"], error["code"].removeprefix("container."), error["title"]


async def rows(plane: Plane) -> list[Any]:
    async with plane.db.read() as connection:
        return list(await connection.execute(sa.select(sessions).order_by(sessions.c.id)))


def query(url: str) -> dict[str, str]:
    assert url.startswith("ws://127.0.0.1:6784/?"), url
    return {name: value[0] for name, value in parse_qs(urlsplit(url).query, strict_parsing=True).items()}


async def test_execute_offers_a_session(plane: Plane) -> None:
    client, made = plane.client(), await plane.create(plane.client())
    plane.bus.answers["open_exec"] = EXEC_ID
    asked = {"command": '"sh" "-c" "a b"', "interactive": "True", "run": "False"}
    answer = await client.post(f"{URL}/{made['uuid']}/execute", params=asked)
    assert answer.status_code == 200, answer.text
    told_url = answer.json().pop("proxy_url")
    assert answer.json() == {"output": None, "exit_code": None, "exec_id": EXEC_ID, "proxy_url": told_url}
    assert list(query(told_url)) == ["token", "uuid", "exec_id"]
    token, uuid, exec_id = query(told_url).values()
    assert (uuid, exec_id) == (made["uuid"], EXEC_ID)
    assert len(token) >= 43
    assert plane.bus.calls[-1] == (
        "node1", "open_exec",
        {"uuid": uuid, "command": ["sh", "-c", "a b"], "tty": True, "stdin": True},
    )  # fmt: skip
    (row,) = await rows(plane)
    assert (row.token_hash, row.kind, row.command) == (hash_token(token), "exec", ["sh", "-c", "a b"])
    assert (row.project_id, row.user_id, row.host, row.tty, row.stdin) == ("proj1", "user1", "node1", True, True)
    assert row.request_id == answer.headers["X-Openstack-Request-Id"]
    assert row.expires_at - row.created_at == timedelta(seconds=600)
    assert token not in repr(row), "only the hash is kept"


async def test_not_interactive_is_without_terminal_and_input(plane: Plane) -> None:
    made = await plane.create(plane.client())
    plane.bus.answers["open_exec"] = EXEC_ID
    await plane.client().post(f"{URL}/{made['uuid']}/execute", json={"command": "ls", "run": False})
    assert plane.bus.calls[-1][2] == {"uuid": made["uuid"], "command": ["ls"], "tty": False, "stdin": False}


async def test_attach_gives_each_caller_a_token(plane: Plane) -> None:
    client, made = plane.client(), await plane.create(plane.client(), interactive=True, tty=True)
    first, second = [(await client.get(f"{URL}/{made['uuid']}/attach")).json() for _ in range(2)]
    assert list(query(first)) == ["token", "uuid"]
    assert query(first)["token"] != query(second)["token"]
    assert {row.token_hash for row in await rows(plane)} == {hash_token(query(u)["token"]) for u in (first, second)}
    assert {(row.kind, row.exec_id, row.command, row.tty, row.stdin) for row in await rows(plane)} == {
        ("attach", None, None, True, True)
    }


async def test_attach_needs_the_interactive_flag(plane: Plane) -> None:
    made = await plane.create(plane.client())
    assert told(await plane.client().get(f"{URL}/{made['uuid']}/attach"))[:2] == (400, "no-interactive-flag")
    assert await rows(plane) == []


async def test_resize_of_a_session_is_the_nodes(plane: Plane) -> None:
    client, made = plane.client(), await plane.create(plane.client())
    plane.bus.answers["resize_exec"] = None
    answer = await client.post(f"{URL}/{made['uuid']}/execute_resize", params={"exec_id": EXEC_ID, "h": "9", "w": "7"})
    assert (answer.status_code, answer.json()) == (200, None)
    assert plane.bus.calls[-1] == (
        "node1", "resize_exec", {"uuid": made["uuid"], "exec_id": EXEC_ID, "height": 9, "width": 7},
    )  # fmt: skip
    plane.bus.answers["resize_exec"] = InvalidValue("There is no such command.")
    answer = await client.post(f"{URL}/{made['uuid']}/execute_resize", params={"exec_id": EXEC_ID, "h": "9", "w": "7"})
    assert told(answer)[0] == 400
    calls = len(plane.bus.calls)
    answer = await client.post(f"{URL}/{made['uuid']}/execute_resize", params={"exec_id": "a", "h": "1", "w": "1"})
    assert told(answer)[0] == 400
    assert len(plane.bus.calls) == calls


async def test_members_of_capsules_have_sessions(plane: Plane) -> None:
    client = plane.client()
    capsule = await create_capsule(client, template({"image": "busybox", "stdin": True, "tty": True}))
    member = capsule["containers"][0]["uuid"]
    await plane.set_row(member, status="Running")
    plane.bus.answers |= {"open_exec": EXEC_ID, "resize_exec": None}
    for path in ("execute?command=sh&run=False&interactive=True", f"execute_resize?exec_id={EXEC_ID}&h=1&w=1"):
        answer = await client.post(f"{URL}/{member}/{path}")
        assert answer.status_code == 200, answer.text
        assert plane.bus.calls[-1][2]["capsule"] is True
    assert (await client.get(f"{URL}/{member}/attach")).status_code == 200
    assert {(row.container_uuid, row.capsule_uuid) for row in await rows(plane)} == {(member, capsule["uuid"])}


@pytest.mark.parametrize(
    "path", ["execute?command=sh&run=False", "attach", f"execute_resize?exec_id={EXEC_ID}&h=1&w=1"]
)
async def test_only_of_running_containers_that_are_ones_own_on_hosts_that_are_up(plane: Plane, path: str) -> None:
    client, made = plane.client(), await plane.create(plane.client(), interactive=True)
    method = "GET" if path == "attach" else "POST"
    foreign = plane.client(project_id="other", user_id="else")
    assert (await foreign.request(method, f"{URL}/{made['uuid']}/{path}")).status_code == 404
    assert (await client.request(method, f"{URL}/{uuid4()}/{path}")).status_code == 404
    await plane.host_down()
    assert told(await client.request(method, f"{URL}/{made['uuid']}/{path}"))[:2] == (409, "container-host-not-up")
    await plane.settle(made["uuid"], "Stopped")
    assert told(await client.request(method, f"{URL}/{made['uuid']}/{path}"))[0] == 409
    assert await rows(plane) == []


async def test_a_nodes_refusal_leaves_no_row(plane: Plane) -> None:
    made = await plane.create(plane.client())
    plane.bus.answers["open_exec"] = Conflict("The container is paused.")
    answer = await plane.client().post(f"{URL}/{made['uuid']}/execute", json={"command": "sh", "run": False})
    assert told(answer)[0::2] == (409, "The container is paused.")
    assert await rows(plane) == []


async def test_rows_are_swept_once_they_are_of_no_use(plane: Plane) -> None:
    made = await plane.create(plane.client(), interactive=True)
    assert (await plane.client().get(f"{URL}/{made['uuid']}/attach")).status_code == 200
    for ahead, left in ((0, 1), (timedelta(minutes=65), 1), (timedelta(minutes=75), 0)):
        plane.clock.ahead = ahead or timedelta()
        await reaper.reap_once(plane.api.control, "me")
        assert len(await rows(plane)) == left


async def test_the_base_url_is_the_operators(tmp_path: Path) -> None:
    async with make_plane(tmp_path, {"websocket_proxy.base_url": "wss://sessions.example.org/zun?a=b"}) as plane:
        await plane.add_host()
        made = await plane.create(plane.client(), interactive=True)
        url = (await plane.client().get(f"{URL}/{made['uuid']}/attach")).json()
    assert url.startswith("wss://sessions.example.org/zun?a=b&token=")
