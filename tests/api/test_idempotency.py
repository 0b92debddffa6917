"""``Idempotency-Key``: a create that is sent again makes nothing and is answered as before."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.support.api import told
from tests.support.containers import Plane
from tests.support.wait import eventually
from zun.api.app import create_app
from zun.api.policy import PolicyEnforcer
from zun.control import idempotency, reaper
from zun.control.secrets import Cipher
from zun.store.tables import containers, idempotency_keys, operations

CONTAINERS, CAPSULES = "/v1/containers?run=true", "/v1/capsules"
BODY: dict[str, Any] = {"image": "cirros", "name": "web", "environment": {"A": "b"}}
TEMPLATE: dict[str, Any] = {
    "template": {
        "kind": "capsule",
        "capsuleVersion": "beta",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"image": "cirros"}]},
    }
}
KINDS = pytest.mark.parametrize(("url", "body", "rows"), [(CONTAINERS, BODY, 1), (CAPSULES, TEMPLATE, 2)])
KEY = {"Idempotency-Key": "8e03978e-40d5-43dd-bc93-6894a57f9324"}
REUSED = (409, "idempotency-key-reused")


async def send(client: httpx.AsyncClient, url: str, body: dict[str, Any], **more: Any) -> httpx.Response:
    return await client.post(url, json=body, headers=more.pop("headers", KEY), **more)


@KINDS
async def test_sent_again_gives_the_same_answer(plane: Plane, url: str, body: dict[str, Any], rows: int) -> None:
    client = plane.client()
    first, rings = await send(client, url, body), list(plane.bus.rings)
    assert (first.status_code, "idempotency-replayed" in first.headers) == (202, False)
    await plane.settle(first.json()["uuid"], "Running")
    second = await send(client, url, body)
    assert (second.status_code, second.headers["idempotency-replayed"]) == (202, "true")
    assert second.content == first.content
    assert second.headers["location"] == first.headers["location"]
    assert (await plane.count(containers), await plane.count(operations)) == (rows, 1)
    assert plane.bus.rings == rings


@KINDS
async def test_two_at_once_make_one(plane: Plane, url: str, body: dict[str, Any], rows: int) -> None:
    client = plane.client()
    answers = await asyncio.gather(*(send(client, url, body) for _ in range(6)))
    assert {(one.status_code, one.content) for one in answers} == {(202, answers[0].content)}
    assert len([one for one in answers if "idempotency-replayed" in one.headers]) == 5
    assert await plane.count(containers) == rows
    assert (await plane.usage())["containers"] == 1


async def test_two_at_once_on_two_processes_make_one(plane: Plane) -> None:
    other = dataclasses.replace(
        plane.api, app=create_app(plane.api.control, plane.api.identity, PolicyEnforcer(plane.api.conf))
    )
    one, two = plane.client(), other.client()
    answers = await asyncio.gather(send(one, CONTAINERS, BODY), send(two, CONTAINERS, BODY))
    assert answers[0].content == answers[1].content
    assert await plane.count(containers) == 1


async def test_another_request_is_refused(plane: Plane) -> None:
    client = plane.client()
    assert (await send(client, CONTAINERS, BODY)).status_code == 202
    assert told(await send(client, CONTAINERS, {**BODY, "name": "other"}))[:2] == REUSED
    assert told(await send(client, "/v1/containers", BODY))[:2] == REUSED
    assert told(await send(plane.client(version="1.36"), CONTAINERS, BODY))[:2] == REUSED
    again = await send(client, CONTAINERS, dict(reversed(BODY.items())))  # the order of members says nothing
    assert again.status_code == 202
    assert await plane.count(containers) == 1


async def test_a_key_is_its_users_in_a_project_for_one_kind(plane: Plane) -> None:
    others = [
        plane.client(user_id="eve"),
        plane.client(project_id="proj2"),
        plane.client(project_id="proj2", user_id="eve"),
    ]
    made = [(await send(client, CONTAINERS, BODY)).json()["uuid"] for client in (plane.client(), *others)]
    assert len(set(made)) == 4
    assert (await send(plane.client(), CAPSULES, TEMPLATE)).status_code == 202


@pytest.mark.parametrize("key", ["", " ", "a b", "a,b", "x" * 256, "\x7f"])
async def test_what_is_no_key(plane: Plane, key: str) -> None:
    assert told(await send(plane.client(), CONTAINERS, BODY, headers={"Idempotency-Key": key}))[:2] == (
        400,
        "invalid-value",
    )
    assert await plane.count(containers) == 0


async def test_a_repeated_header_is_no_key(plane: Plane) -> None:
    headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    assert (await send(plane.client(), CONTAINERS, BODY, headers=headers)).status_code == 400


async def test_a_refused_request_keeps_nothing(plane: Plane) -> None:
    client = plane.client()
    plane.placement.down = True
    assert (await send(client, CONTAINERS, BODY)).status_code == 503
    assert await plane.count(idempotency_keys) == 0
    plane.placement.down = False
    assert (await send(client, CONTAINERS, BODY)).status_code == 202


async def test_no_host_is_an_answer_too(plane: Plane) -> None:
    client = plane.client()
    await plane.host_down()
    first, second = [await send(client, CONTAINERS, BODY) for _ in range(2)]
    assert first.json()["status"] == "Error"
    assert second.content == first.content


async def test_the_answer_outlives_its_container(plane: Plane) -> None:
    client = plane.client()
    first = await send(client, CONTAINERS, BODY)
    async with plane.db.write() as connection:
        await connection.execute(containers.delete())
    assert (await send(client, CONTAINERS, BODY)).content == first.content


async def test_answers_are_kept_encrypted(plane: Plane) -> None:
    await send(plane.client(), CONTAINERS, {**BODY, "environment": {"PASSWORD": "tops3cret"}})
    async with plane.db.read() as connection:
        (row,) = (await connection.execute(idempotency_keys.select())).mappings()
    assert "tops3cret" not in str(dict(row))
    assert KEY["Idempotency-Key"] not in str(dict(row))


async def test_kept_for_its_time(plane: Plane) -> None:
    client = plane.client()
    first = (await send(client, CONTAINERS, BODY)).json()["uuid"]
    ttl = plane.api.conf.api.idempotency_key_ttl
    plane.clock.ahead = timedelta(seconds=ttl - 10)
    await reaper.reap_once(plane.api.control, "one")
    assert (await send(client, CONTAINERS, BODY)).json()["uuid"] == first
    plane.clock.ahead = timedelta(seconds=ttl + 10)
    again = (await send(client, CONTAINERS, {**BODY, "name": "other"})).json()  # free again, swept or not
    assert again["uuid"] != first
    plane.clock.ahead = timedelta(seconds=2 * ttl + 20)
    await reaper.reap_once(plane.api.control, "one")
    assert await plane.count(idempotency_keys) == 0


async def _dead_claim(plane: Plane) -> httpx.AsyncClient:
    """A request whose process dies before it has made anything: its claim is all that is left."""
    client = plane.client()

    async def dead(_: Any) -> None:
        """What the process did not live to do."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(idempotency, "_release", dead)
        plane.placement.down = True
        assert (await send(client, CONTAINERS, BODY)).status_code == 503
    plane.placement.down = False
    assert (await plane.count(idempotency_keys), await plane.count(containers)) == (1, 0)
    return client


async def test_sent_again_after_the_process_died(plane: Plane) -> None:
    client = await _dead_claim(plane)
    plane.clock.ahead = idempotency.LEASE + timedelta(seconds=1)
    assert told(await send(client, CONTAINERS, {**BODY, "name": "other"}))[:2] == REUSED
    made = await send(client, CONTAINERS, BODY)
    assert (made.status_code, "idempotency-replayed" in made.headers) == (202, False)
    assert (await send(client, CONTAINERS, BODY)).content == made.content


async def test_waits_while_the_first_may_be_alive(plane: Plane) -> None:
    client = await _dead_claim(plane)
    waiting = asyncio.create_task(send(client, CONTAINERS, BODY))
    looked = len(plane.bus.rings)
    await asyncio.sleep(0)
    assert not waiting.done()
    assert len(plane.bus.rings) == looked
    plane.clock.ahead = idempotency.LEASE + timedelta(seconds=1)
    assert (await waiting).status_code == 202


async def test_is_told_when_the_first_does_not_end(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await _dead_claim(plane)
    monkeypatch.setattr(idempotency, "PATIENCE", 0.0)
    assert told(await send(client, CONTAINERS, BODY))[:2] == (409, "idempotency-key-in-use")


async def test_who_lost_the_claim_makes_nothing(plane: Plane) -> None:
    """A request that stood still for longer than its lease, while it was sent again: one container."""
    client, held, go = plane.client(), asyncio.Event(), asyncio.Event()
    real = plane.network._real.resolve

    async def slow(*args: Any, **more: Any) -> Any:
        if not held.is_set():
            held.set()
            await go.wait()
        return await real(*args, **more)

    plane.network._real.resolve = slow
    first = asyncio.create_task(send(client, CONTAINERS, BODY))
    await held.wait()
    plane.clock.ahead = idempotency.LEASE + timedelta(seconds=1)
    second = await send(client, CONTAINERS, BODY)
    assert second.status_code == 202
    go.set()
    assert told(await first)[:2] == (409, "idempotency-key-in-use")
    assert await plane.count(containers) == 1
    assert (await plane.usage())["containers"] == 1


async def test_a_slow_request_keeps_its_claim(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "RENEW_SECONDS", 0.01)
    client, held, go = plane.client(), asyncio.Event(), asyncio.Event()
    real = plane.network._real.resolve

    async def slow(*args: Any, **more: Any) -> Any:
        held.set()
        await go.wait()
        return await real(*args, **more)

    plane.network._real.resolve = slow
    first = asyncio.create_task(send(client, CONTAINERS, BODY))
    await held.wait()
    plane.clock.ahead = idempotency.LEASE - timedelta(seconds=2)

    async def renewed() -> bool:
        async with plane.db.read() as connection:
            lease = (await connection.execute(idempotency_keys.select())).mappings().one()["lease_until"]
        return bool(lease > plane.clock.now() + timedelta(seconds=10))

    await eventually(renewed, 30, "the lease was renewed")
    second = asyncio.create_task(send(client, CONTAINERS, BODY))
    go.set()
    answers = await asyncio.gather(first, second)
    assert answers[0].content == answers[1].content
    assert await plane.count(containers) == 1


async def test_without_a_key_every_request_makes_one(plane: Plane) -> None:
    client = plane.client()
    made = [(await send(client, CONTAINERS, {"image": "cirros"}, headers={})).json()["uuid"] for _ in range(2)]
    assert len(set(made)) == 2
    assert await plane.count(idempotency_keys) == 0


async def test_another_encryption_key_is_told(plane: Plane) -> None:
    client = plane.client()
    await send(client, CONTAINERS, BODY)
    control = dataclasses.replace(plane.api.control, cipher=Cipher("y" * 32))
    plane.api.app = create_app(control, plane.api.identity, PolicyEnforcer(plane.api.conf))
    answer = told(await send(plane.client(), CONTAINERS, BODY))
    assert answer[:2] == (409, "conflict")
    assert "auth_encryption_key" in answer[2]
