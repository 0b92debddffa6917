"""The suite of every bus over RabbitMQ, and what only a bus with a broker can do wrong."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import aio_pika
import orjson
import pytest

from tests.contract.bus_suite import *  # noqa: F403 - the tests of every bus
from tests.contract.bus_suite import HOST, Node, until
from tests.support.certificates import make_certificates
from tests.support.ports import free_port
from tests.support.rabbit import Rabbit
from tests.support.wait import eventually
from zun.bus import frames, rabbit_agent, rabbitmq
from zun.bus.rabbit_url import RabbitOptions
from zun.bus.rabbitmq import RabbitBus
from zun.domain.errors import Conflict, HostUnreachable, InvalidValue, ZunError

QUICK = RabbitOptions(rabbit_retry_interval=0.1, rabbit_interval_max=0.5)
Make = Callable[..., RabbitBus]


@pytest.fixture
async def make(rabbit: Rabbit) -> AsyncIterator[Make]:
    """Buses with queues of their own for this test; afterwards nothing of them runs."""
    topic = f"t{uuid4().hex[:12]}"
    before = asyncio.all_tasks()
    async with AsyncExitStack() as stack:

        def make_bus(url: str | None = None, **options: Any) -> RabbitBus:
            bus = RabbitBus(rabbit.url() if url is None else url, replace(QUICK, **{"topic": topic, **options}))
            stack.push_async_callback(bus.close)
            return bus

        make_bus.topic = topic  # type: ignore[attr-defined]
        yield make_bus

    async def nothing_runs() -> bool:
        return not asyncio.all_tasks() - before - {asyncio.current_task()}

    await eventually(nothing_runs, 30, "no task of a closed bus runs")


@pytest.fixture
async def bus(make: Make, node: Node) -> RabbitBus:
    await node.serve(make())
    return make()


def topic_of(make: Make) -> str:
    return str(make.topic)  # type: ignore[attr-defined]


def amqp(rabbit: Rabbit) -> str:
    """For the library itself."""
    return rabbit.url().replace("rabbit:", "amqp:")


async def answers(bus: RabbitBus, host: str = HOST) -> bool:
    try:
        return bool(await bus.call(host, "echo", {"n": 1}, 20) == {"n": 1})
    except HostUnreachable:
        return False


def connecting(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says of connections."""
    return [record.getMessage() for record in caplog.records if "bus-connect" in record.getMessage()]


async def ctl(rabbit: Rabbit, *columns: str) -> dict[str, list[str]]:
    rows = await asyncio.to_thread(rabbit.queues, *columns)
    return {row[0]: row[1:] for row in rows}


# -- hosts and callers ------------------------------------------------------------------------------------


async def test_two_callers_and_two_hosts(make: Make) -> None:
    nodes = {"node-1": Node(), "node-2": Node()}
    for host, served in nodes.items():
        await served.serve(make(), host)
    callers = [make(), make()]
    for caller in callers:
        for host in nodes:
            assert await answers(caller, host)
    await callers[0].ring("node-1")
    await callers[1].ring("node-2")
    for served in nodes.values():
        await until(served.rung)
    assert [served.rings for served in nodes.values()] == [1, 1]


async def test_200_calls_are_at_work_at_once(make: Make, bus: RabbitBus) -> None:
    all_there, count = asyncio.Event(), 0

    async def meet(params: Any) -> Any:
        nonlocal count
        count += 1
        if count == 200:
            all_there.set()
        await all_there.wait()
        return params["n"]

    await make().serve("meeting", lambda: None, {"meet": meet})
    found = await asyncio.gather(*(bus.call("meeting", "meet", {"n": n}, 60) for n in range(200)))
    assert found == list(range(200))


async def test_second_agent_of_a_host_is_refused_and_may_follow(make: Make, bus: RabbitBus, node: Node) -> None:
    second = make()
    with pytest.raises(Conflict, match=HOST):
        await Node().serve(second)
    assert await answers(bus)
    first = make()
    await node.serve(first, "other")
    with pytest.raises(Conflict, match="other"):
        await node.serve(first, "other")
    await first.close()
    await node.serve(second, "other")
    assert await answers(bus, "other")


async def test_a_host_whose_name_no_queue_can_have(make: Make) -> None:
    for host in ("", "a/b", "a*b", "x" * 240):
        with pytest.raises(InvalidValue):
            await make().serve(host, lambda: None, {})


# -- calls ------------------------------------------------------------------------------------------------


async def test_an_agent_that_hangs_costs_the_deadline_and_not_more(make: Make, rabbit: Rabbit, bus: RabbitBus) -> None:
    """Its queue is still there and takes the call; nobody reads it."""
    key = f"{topic_of(make)}.hung.calls"
    async with await aio_pika.connect(amqp(rabbit)) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind("zun", key)
        start = time.monotonic()
        with pytest.raises(HostUnreachable, match=r"Host hung did not answer echo within 0\.5 s"):
            await bus.call("hung", "echo", {}, 0.5)
        assert 0.5 <= time.monotonic() - start < 10

        async def expired() -> bool:
            return (await channel.declare_queue(queue.name, passive=True)).declaration_result.message_count == 0

        await eventually(expired, 30, "the broker drops the question at its deadline")


async def test_an_agent_that_left_is_told_at_once(make: Make, bus: RabbitBus, node: Node) -> None:
    agent = make()
    await node.serve(agent, "leaving")
    assert await answers(bus, "leaving")
    await agent.close()
    start = time.monotonic()
    with pytest.raises(HostUnreachable, match="Host leaving does not answer: no agent is running"):
        await bus.call("leaving", "echo", {}, 60)
    assert time.monotonic() - start < 20


async def test_a_late_answer_is_dropped(make: Make, bus: RabbitBus, rabbit: Rabbit) -> None:
    """An agent without a sense of time: it answers after the deadline, and neither cancellation nor limit stops it."""
    key, answered = f"{topic_of(make)}.slow.calls", asyncio.Event()
    async with await aio_pika.connect(amqp(rabbit)) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind("zun", key)

        asked: asyncio.Queue[Any] = asyncio.Queue()
        await queue.consume(asked.put, no_ack=True)
        with pytest.raises(HostUnreachable):  # later than it takes to get there: the broker drops what is too old
            await bus.call("slow", "echo", {}, 2)
        late = await asked.get()
        second = asyncio.create_task(bus.call("slow", "echo", {}, 60))
        in_time = await asked.get()
        for message, text in ((late, "late"), (in_time, "in time")):
            body = orjson.dumps({"result": text})
            sent = aio_pika.Message(body, correlation_id=message.correlation_id)
            await channel.default_exchange.publish(sent, message.reply_to)
        answered.set()
        assert await second == "in time"


async def test_a_call_older_than_its_deadline_is_not_carried_out(make: Make, bus: RabbitBus, rabbit: Rabbit) -> None:
    """A broker that hung delivers questions whose askers were told 503 long ago."""
    done = asyncio.Event()

    async def mark(_: Any) -> None:
        done.set()

    await make().serve("careful", lambda: None, {"mark": mark})
    async with await aio_pika.connect(amqp(rabbit)) as connection:
        channel = await connection.channel()
        replies = await channel.declare_queue(exclusive=True)
        body = {"method": "mark", "params": {}, "sent": time.time() - 61, "deadline": 60}
        message = aio_pika.Message(orjson.dumps(body), correlation_id="1", reply_to=replies.name)
        exchange = await channel.get_exchange("zun")
        await exchange.publish(message, f"{topic_of(make)}.careful.calls")
        answer: Any = None

        async def answered() -> Any:
            nonlocal answer
            answer = await replies.get(no_ack=True, fail=False)
            return answer

        await eventually(answered, 30, "the refusal comes")
        assert b"after it was sent" in answer.body
    assert not done.is_set()
    await bus.call("careful", "mark", {}, 60)
    assert done.is_set()


async def test_a_message_that_is_no_call_harms_nobody(make: Make, bus: RabbitBus, rabbit: Rabbit) -> None:
    async with await aio_pika.connect(amqp(rabbit)) as connection:
        exchange = await (await connection.channel()).get_exchange("zun")
        for body in (b"", b"no json", b"[]", b'{"method": 1, "params": 2, "sent": "x", "deadline": []}'):
            for kind in ("calls", "cancels", "doorbell"):
                await exchange.publish(aio_pika.Message(body), f"{topic_of(make)}.{HOST}.{kind}")
    assert await answers(bus)


async def test_messages_are_bounded(bus: RabbitBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME", 100_000)
    assert len(await bus.call(HOST, "big", {"size": 90_000}, 60)) == 90_000
    with pytest.raises(ZunError, match="larger than"):
        await bus.call(HOST, "big", {"size": 100_000}, 60)
    with pytest.raises(InvalidValue, match="cannot be sent"):
        await bus.call(HOST, "echo", {"text": "x" * 100_000}, 60)
    assert await answers(bus)


async def test_the_largest_answer_comes_whole(bus: RabbitBus) -> None:
    size = frames.MAX_FRAME - 1000
    assert len(await bus.call(HOST, "big", {"size": size}, 60)) == size


async def test_a_full_queue_refuses(make: Make, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rabbit_agent, "PREFETCH", 1)
    monkeypatch.setattr(rabbit_agent, "_CALLS", {"x-max-length": 1, "x-overflow": "reject-publish"})
    await node.serve(make())
    bus = make()
    hanging = [asyncio.create_task(bus.call(HOST, "hang", {}, 30)) for _ in range(10)]

    def refused() -> list[BaseException | None]:
        return [call.exception() for call in hanging if call.done()]

    await eventually(refused, 30, "calls are refused")
    await until(node.started)
    assert all("too many calls wait for it" in str(error) for error in refused())
    for call in hanging:
        call.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
    await eventually(lambda: answers(bus), 30, "there is room again, and the waiting call was not begun")
    assert node.cancelled.is_set()


# -- doorbells --------------------------------------------------------------------------------------------


async def test_rings_wait_for_a_host_that_is_away_and_stay_few(make: Make, bus: RabbitBus, rabbit: Rabbit) -> None:
    agent, away = make(), Node()
    await away.serve(agent, "away")
    await agent.close()
    queue = f"{topic_of(make)}.away.doorbell"
    for _ in range(30):
        await bus.ring("away")
        await answers(bus)  # so that the rings do not become one
    rows = await ctl(rabbit, "type", "durable")
    assert rows[queue] == ["quorum", "true"]
    async with await aio_pika.connect(amqp(rabbit)) as connection:
        found = (await (await connection.channel()).declare_queue(queue, passive=True)).declaration_result
    assert found.consumer_count == 0
    assert 1 <= (found.message_count or 0) <= 8
    await away.serve(make(), "away")
    await until(away.rung)
    assert away.rings <= 8


async def test_many_rings_at_once_are_few_messages(make: Make, bus: RabbitBus, node: Node) -> None:
    for _ in range(1000):
        await bus.ring(HOST)
    await until(node.rung)
    assert await answers(bus)
    assert node.rings <= 10


async def test_a_ring_after_a_ring_in_flight_is_sent_too(bus: RabbitBus, node: Node) -> None:
    """The first may have been heard before the second's operation was written."""
    await answers(bus)
    await bus.ring(HOST)
    await asyncio.sleep(0)  # its message is on the way
    await bus.ring(HOST)
    await eventually(lambda: node.rings >= 2, 30, "both are heard")


async def test_a_deleted_doorbell_queue_is_made_again(make: Make, bus: RabbitBus, node: Node, rabbit: Rabbit) -> None:
    await asyncio.to_thread(rabbit.ctl, "delete_queue", f"{topic_of(make)}.{HOST}.doorbell")
    await eventually(lambda: node.rings >= 1, 30, "the agent looks when it is connected again")
    seen = node.rings
    await bus.ring(HOST)
    await eventually(lambda: node.rings > seen, 30, "and hears the next ring")


async def test_the_exchange_the_original_left_serves_as_well(make: Make, node: Node, rabbit: Rabbit) -> None:
    name = f"old{uuid4().hex[:8]}"
    async with await aio_pika.connect(amqp(rabbit)) as connection:
        channel = await connection.channel()
        await channel.declare_exchange(name, aio_pika.ExchangeType.TOPIC, durable=False)
        await node.serve(make(exchange=name))
        bus = make(exchange=name)
        assert await answers(bus)
        await bus.ring(HOST)
        await until(node.rung)
        await bus.close()
        await channel.exchange_delete(name)


async def test_the_permissions_the_guide_asks_for_are_enough(make: Make, node: Node, rabbit: Rabbit) -> None:
    who = f"narrow{uuid4().hex[:6]}"
    guide = (Path(__file__).parents[2] / "docs" / "howto" / "separate-processes.md").read_text()
    command = next(line for line in guide.splitlines() if line.startswith("rabbitmqctl set_permissions"))
    await asyncio.to_thread(rabbit.ctl, "add_user", who, "secret")
    await asyncio.to_thread(rabbit.ctl, "set_permissions", who, *shlex.split(command)[3:])
    url = rabbit.url(user=who, password="secret")
    await node.serve(make(url, topic=f"zun-{who}"))
    bus = make(url, topic=f"zun-{who}")
    assert await answers(bus)
    await bus.ring(HOST)
    await until(node.rung)


# -- TLS --------------------------------------------------------------------------------------------------


async def test_tls_with_a_private_authority(make: Make, node: Node, rabbit: Rabbit) -> None:
    await node.serve(make(rabbit.tls_url()))
    ca = str(rabbit.certificates.ca)
    by_options = make(rabbit.tls_url().partition("?")[0], ssl=True, ssl_ca_file=ca)
    assert await answers(by_options)
    assert await answers(make(rabbit.tls_url().replace("rabbit://", "amqps://")))


async def test_a_foreign_authority_is_refused_in_one_sentence(
    make: Make, rabbit: Rabbit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(rabbitmq, "_PATIENCE", 1.0)
    foreign = make_certificates(tmp_path, "someone").ca
    bus = make(rabbit.tls_url().partition("?")[0], ssl=True, ssl_ca_file=str(foreign))
    await eventually(lambda: connecting(caplog), 60, "it is refused")
    with pytest.raises(HostUnreachable, match="certificate that is not accepted: "):
        await bus.call(HOST, "echo", {}, 5)


# -- what is wrong is said once ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("password", "refuses user 'zun': wrong name or password"),
        ("vhost", "into virtual host 'nowhere'"),
        ("port", "refuses the connection"),
    ],
)
async def test_what_is_wrong_is_said_once(
    make: Make,
    rabbit: Rabbit,
    what: str,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(rabbitmq, "_PATIENCE", 1.5)
    caplog.set_level("INFO")
    urls = {
        "password": rabbit.url(password="w%2Fr0ng-secret"),
        "vhost": rabbit.url(vhost="nowhere"),
        "port": f"rabbit://zun:w%2Fr0ng-secret@127.0.0.1:{free_port()}/",
    }
    bus = make(urls[what], rabbit_interval_max=0.1)
    await Node().serve(bus)  # the agent starts all the same
    await eventually(lambda: connecting(caplog), 60, "it is told")
    with pytest.raises(HostUnreachable, match="the message broker does not answer") as raised:
        await bus.call(HOST, "echo", {}, 30)
    assert sentence in raised.value.message
    failed = connecting(caplog)
    assert len(failed) == 1, failed
    assert sentence in failed[0]
    assert "secret" not in caplog.text + raised.value.message


async def test_the_next_broker_is_used_when_one_is_away(make: Make, rabbit: Rabbit, node: Node) -> None:
    dead = f"127.0.0.1:{free_port()}"
    several = rabbit.url().replace("@127", f"@{dead},zun:p%40ss%2Fw%2Crd%25@127", 1)
    await node.serve(make(several))
    for _ in range(4):  # whichever is tried first
        assert await answers(make(several))
