"""Notifications on a real RabbitMQ: the form consumers know, every operation, and never at an operation's expense."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import aio_pika
import httpx
import pytest

from tests.api.test_capsules import template
from tests.support.live import Live, live
from tests.support.rabbit import Rabbit
from tests.support.wait import eventually, wait_until
from zun.bus import rabbit_notifier
from zun.bus.rabbit_notifier import RabbitNotifier
from zun.bus.rabbit_url import RabbitOptions
from zun.domain.notification import Notification

QUICK = RabbitOptions(rabbit_retry_interval=0.1, rabbit_interval_max=0.5)
_NUMBERS = itertools.count(1)


def told(number: int = 0, *, error: bool = False) -> Notification:
    return Notification("container.create.end", error, {"number": number}, {"request_id": "req-1", "user_id": "ada"})


class Consumer:
    """Reads queues of a topic as any consumer would."""

    def __init__(self, channel: Any, topic: str) -> None:
        self._channel, self.topic = channel, topic
        self.raw: list[aio_pika.abc.AbstractIncomingMessage] = []

    async def get(self, priority: str = "info") -> Any | None:
        """The next message, without its envelope; None when there is none."""
        queue = await self._channel.get_queue(f"{self.topic}.{priority}", ensure=False)
        message = await queue.get(fail=False)
        if message is None:
            return None
        await message.ack()
        self.raw.append(message)
        body = json.loads(message.body)
        if "oslo.version" in body:
            assert body["oslo.version"] == "2.0"
            return json.loads(body["oslo.message"])
        return body

    async def wait(self, priority: str = "info") -> Any:
        return await eventually(lambda: self.get(priority), 30, f"a message in {self.topic}.{priority}")


@pytest.fixture
async def channel(rabbit: Rabbit) -> AsyncIterator[Any]:
    connection = await aio_pika.connect(amqp(rabbit))
    async with connection:
        yield await connection.channel()


def make(rabbit: Rabbit, topic: str, **more: Any) -> RabbitNotifier:
    return RabbitNotifier(rabbit.url(), QUICK, publisher="container.node-1", topics=[topic], **more)


def amqp(rabbit: Rabbit) -> str:
    return rabbit.url().replace("rabbit://", "amqp://")


async def there(rabbit: Rabbit, name: str) -> None:
    """Returns when there is such a queue."""

    async def declared() -> bool:
        try:
            async with await aio_pika.connect(amqp(rabbit)) as probe:
                await (await probe.channel()).declare_queue(name, passive=True)
        except aio_pika.exceptions.ChannelNotFoundEntity:
            return False
        return True

    await eventually(declared, 30, f"queue {name}")


async def test_the_form_that_consumers_know(rabbit: Rabbit, channel: Any) -> None:
    topic = f"t{uuid4().hex[:8]}"
    notifier = make(rabbit, topic)
    try:
        notifier.notify(None)
        notifier.notify(told(1))
        notifier.notify(told(2, error=True))
        await there(rabbit, f"{topic}.error")
        consumer = Consumer(channel, topic)
        info, error = await consumer.wait(), await consumer.wait("error")
    finally:
        await notifier.close()
    assert info["event_type"] == "container.create.end"
    assert (info["priority"], error["priority"]) == ("INFO", "ERROR")
    assert (info["payload"], error["payload"]) == ({"number": 1}, {"number": 2})
    assert info["publisher_id"] == "container.node-1"
    assert info["_context_request_id"] == "req-1"
    assert info["message_id"] != error["message_id"]
    assert info["_unique_id"] != error["_unique_id"]
    time.strptime(info["timestamp"], "%Y-%m-%d %H:%M:%S.%f")
    assert {(one.content_type, one.content_encoding) for one in consumer.raw} == {("application/json", "utf-8")}


async def test_queues_of_consumers_are_used_as_they_are(rabbit: Rabbit, channel: Any) -> None:
    topic = f"t{uuid4().hex[:8]}"
    await channel.declare_queue(f"{topic}.info", durable=False)
    notifier = make(rabbit, topic, enveloped=False)
    try:
        notifier.notify(told(7))
        message = await Consumer(channel, topic).wait()
    finally:
        await notifier.close()
    assert message["payload"] == {"number": 7}
    assert "oslo.message" not in message


async def test_a_broker_that_is_away_holds_up_nobody(
    rabbit: Rabbit, channel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rabbit_notifier, "_MOST", 20)
    topic = f"t{uuid4().hex[:8]}"
    notifier = make(rabbit, topic)
    try:
        await there(rabbit, f"{topic}.error")
        await channel.close()
        await asyncio.to_thread(rabbit.kill)
        for number in range(30):
            notifier.notify(told(number))
        await asyncio.to_thread(rabbit.start)
        async with await aio_pika.connect(amqp(rabbit)) as connection:
            consumer = Consumer(await connection.channel(), topic)
            found = [(await consumer.wait())["payload"]["number"] for _ in range(20)]
            assert found == list(range(20)), "in their order; what did not fit is dropped"
            notifier.notify(told(99))
            later = [(await consumer.wait())["payload"]["number"]]
            while later[-1] != 99:  # one may have left the list for the connection that was lost
                later.append((await consumer.wait())["payload"]["number"])
            assert len(later) <= 2
    finally:
        await notifier.close()


async def test_closing_does_not_wait_for_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rabbit_notifier, "_CLOSE_SECONDS", 0.1)
    before = asyncio.all_tasks()
    notifier = RabbitNotifier("rabbit://127.0.0.1:1/", QUICK, publisher="p", topics=["t"])
    notifier.notify(told())
    async with asyncio.timeout(60):
        await notifier.close()
    await eventually(lambda: asyncio.all_tasks() <= before | {asyncio.current_task()}, 30, "nothing of it runs")


# -- the product ------------------------------------------------------------------------------------


@pytest.fixture
def topic() -> str:
    return f"life{next(_NUMBERS)}"


@pytest.fixture
def zun(tmp_path: Path, rabbit: Rabbit, topic: str) -> Iterator[Live]:
    options = {"driver": "messagingv2", "transport_url": rabbit.url(), "topics": topic}
    sizes = {"DEFAULT": {"maximum_memory": 10**9}, "quota": {"memory": -1}}
    with live(tmp_path, {"oslo_messaging_notifications": options, **sizes}) as product:
        yield product


def _gone(client: httpx.Client, path: str) -> bool:
    return client.get(path).status_code == 404


def _lives(zun: Live) -> dict[str, str]:
    """What is done to whom; uuids by name."""
    with zun.http(zun.admin) as client:
        body = {"image": "busybox", "name": "told", "environment": {"SECRET": "hush"}, "command": ["sleep", "hush"]}
        made = client.post("/v1/containers?run=true", json=body).json()["uuid"]
        path = f"/v1/containers/{made}"

        def settled(status: str) -> None:
            wait_until(lambda: client.get(path).json()["status"] == status, 30, status)

        settled("Running")
        for action, status in (("pause", "Paused"), ("unpause", "Running"), ("stop", "Stopped"), ("start", "Running")):
            assert client.post(f"{path}/{action}").status_code == 202
            settled(status)
        assert client.delete(f"{path}?force=true").status_code == 204
        wait_until(lambda: _gone(client, path), 30, "it is gone")
        large = client.post("/v1/containers", json={"image": "busybox", "name": "large", "memory": "999999999"})
        assert large.status_code == 202, large.text
        assert client.delete(f"/v1/containers/{large.json()['uuid']}").status_code == 204
        capsule = client.post("/v1/capsules", json={"template": json.dumps(template({"image": "busybox"}))}).json()
        where = f"/v1/capsules/{capsule['uuid']}"
        wait_until(lambda: client.get(where).json()["status"] == "Running", 30, "the capsule runs")
        client.delete(where)
        wait_until(lambda: _gone(client, where), 30, "the capsule is gone")
        return {"told": made, "large": large.json()["uuid"], "capsule": capsule["uuid"]}


async def test_every_operation_is_told(zun: Live, channel: Any, topic: str) -> None:
    names = await asyncio.to_thread(_lives, zun)
    consumer = Consumer(channel, topic)
    found: list[Any] = []
    while len(found) < 19:
        found.append(await consumer.wait())
    error = await consumer.wait("error")
    assert await consumer.get() is None

    def of(name: str) -> list[tuple[str, str | None]]:
        mine = [one for one in found if one["payload"]["uuid"] == names[name]]
        return [(one["event_type"], one["payload"]["status"]) for one in mine]

    actions = ("create", "pause", "unpause", "stop", "start", "delete")
    kinds = [f"container.{action}.{phase}" for action in actions for phase in ("start", "end")]
    assert [kind for kind, _ in of("told")] == kinds
    assert [status for kind, status in of("told") if kind.endswith("end")] == [
        "Running", "Paused", "Running", "Stopped", "Running", "Deleted",
    ]  # fmt: skip
    assert [kind for kind, _ in of("large")] == [
        "container.create.start", "container.delete.start", "container.delete.end",
    ]  # fmt: skip
    assert [kind for kind, _ in of("capsule")] == [
        "capsule.create.start", "capsule.create.end", "capsule.delete.start", "capsule.delete.end",
    ]  # fmt: skip
    assert (error["event_type"], error["payload"]["uuid"]) == ("container.create.error", names["large"])
    assert error["payload"]["status"] == "Error"
    assert error["payload"]["reason"]
    assert error["_context_request_id"].startswith("req-")
    assert "hush" not in json.dumps(found), "nothing that users keep secret"
