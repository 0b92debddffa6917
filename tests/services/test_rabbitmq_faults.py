"""A broker that is away, restarts, is killed or hangs: nothing is lost, and nobody waits longer than he asked to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import aio_pika
import httpx
import pytest

from tests.contract.bus_suite import HOST, Node, until
from tests.services.test_rabbitmq import Make, amqp, answers, make, topic_of  # noqa: F401 - a fixture
from tests.support.rabbit import Rabbit
from tests.support.simulated_node import SimulatedCloud, simulated_cloud
from tests.support.wait import eventually
from zun.bus import rabbit_doorbell, rabbitmq
from zun.bus.rabbit_pause import Pause
from zun.domain.errors import HostUnreachable

pytestmark = pytest.mark.usefixtures("broker_back")


@pytest.fixture
async def broker_back(rabbit: Rabbit) -> AsyncIterator[None]:
    """Whatever a test did to the broker, the next one has it."""
    yield
    rabbit.resume()
    if not rabbit.answers():
        await asyncio.to_thread(rabbit.restart)


def told(caplog: pytest.LogCaptureFixture, result: str) -> list[str]:
    lines = [record.getMessage() for record in caplog.records]
    return [line for line in lines if "action=bus-connect" in line and f"result={result}" in line]


async def test_both_sides_start_without_a_broker_that_comes_later(
    make: Make,  # noqa: F811
    rabbit: Rabbit,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rabbitmq, "_PATIENCE", 1.0)
    await asyncio.to_thread(rabbit.stop)
    node, bus = Node(), make()
    start = time.monotonic()
    await node.serve(make())
    for _ in range(3):
        await bus.ring(HOST)
    with pytest.raises(HostUnreachable, match=r"message broker does not answer \(127.* refuses the connection\)"):
        await bus.call(HOST, "echo", {}, 30)
    assert time.monotonic() - start < 15
    await asyncio.to_thread(rabbit.start)
    await eventually(lambda: answers(bus), 60, "calls pass")
    await bus.ring(HOST)
    await until(node.rung)


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_a_broker_that_restarts(
    make: Make,  # noqa: F811
    rabbit: Rabbit,
    end: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    node, bus = Node(), make()
    await node.serve(make())
    call = asyncio.create_task(bus.call(HOST, "hang", {}, 60))
    await until(node.started)
    await asyncio.to_thread(getattr(rabbit, end))
    with pytest.raises(HostUnreachable, match="the connection to it was lost"):
        await call
    await bus.ring(HOST)  # nobody takes it now
    assert node.rings == 0
    # A call waits for a broker that is just coming back.
    asked = asyncio.create_task(bus.call(HOST, "echo", {"patient": 1}, 60))
    await asyncio.to_thread(rabbit.start)
    await asyncio.gather(asked, return_exceptions=True)
    await eventually(lambda: answers(bus), 60, "calls pass")
    if end == "stop":  # RabbitMQ can lose a queue made moments before it was killed; that is the next test's
        await eventually(lambda: node.rings, 60, "the ring is heard")
    assert len(told(caplog, "lost")) == 2  # the agent's bus and the caller's, once each
    await eventually(lambda: len(told(caplog, "connected")) == 4, 30, "and both said that they are back, once")
    assert len(told(caplog, "failed")) <= 6


async def test_a_broker_that_hangs_for_a_moment(make: Make, rabbit: Rabbit, caplog: pytest.LogCaptureFixture) -> None:  # noqa: F811
    """Shorter than anybody notices: what was rung meanwhile is heard, the connections stay."""
    node, bus = Node(), make()
    await node.serve(make())
    assert await answers(bus)
    rabbit.hang()
    start = time.monotonic()
    for _ in range(100):
        await bus.ring(HOST)
    assert time.monotonic() - start < 5
    with pytest.raises(HostUnreachable, match="Host node-1 cannot be asked: the message broker does not answer"):
        await bus.call(HOST, "echo", {}, 1)
    assert 1 <= time.monotonic() - start < 10
    rabbit.resume()
    await until(node.rung)
    assert await answers(bus)
    assert not told(caplog, "lost")


async def test_a_broker_that_hangs_is_given_up_and_found_again(
    make: Make,  # noqa: F811
    rabbit: Rabbit,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    node = Node()
    agent, bus = make(heartbeat_timeout_threshold=3), make(heartbeat_timeout_threshold=3)
    await node.serve(agent)
    assert await answers(bus)
    rabbit.hang()
    await bus.ring(HOST)
    await eventually(lambda: len(told(caplog, "lost")) == 2, 30, "both notice")
    assert all("silent for too long" in line for line in told(caplog, "lost"))
    start = time.monotonic()
    with pytest.raises(HostUnreachable, match="the message broker does not answer"):
        await bus.call(HOST, "echo", {}, 60)
    assert time.monotonic() - start < 30
    rabbit.resume()
    await until(node.rung)
    await eventually(lambda: answers(bus), 60, "calls pass")


async def test_closing_does_not_wait_for_a_broker_that_hangs(make: Make, rabbit: Rabbit) -> None:  # noqa: F811
    node, bus, tls = Node(), make(), make(rabbit.tls_url())
    agent = make()
    await node.serve(agent)
    assert await answers(bus)
    assert await answers(tls)
    calls = [asyncio.create_task(bus.call(HOST, "hang", {}, 60)) for _ in range(3)]
    await until(node.started)
    rabbit.hang()
    late = make()  # in the middle of its handshake
    await bus.ring(HOST)
    start = time.monotonic()
    await asyncio.gather(bus.close(), agent.close(), tls.close(), late.close())
    assert time.monotonic() - start < 30
    assert all(isinstance(error, HostUnreachable) for error in await asyncio.gather(*calls, return_exceptions=True))
    await until(node.cancelled)


async def test_a_broker_short_of_memory_blocks_and_nobody_waits_for_it(make: Make, rabbit: Rabbit) -> None:  # noqa: F811
    node, bus = Node(), make()
    await node.serve(make())
    assert await answers(bus)
    await asyncio.to_thread(rabbit.ctl, "set_vm_memory_high_watermark", "absolute", "1MB")
    try:

        async def blocked() -> bool:
            try:
                await bus.call(HOST, "echo", {}, 3)  # longer than a busy machine takes
            except HostUnreachable:
                return True
            return False

        await eventually(blocked, 90, "the alarm is raised")
        seen, start = node.rings, time.monotonic()
        await bus.ring(HOST)
        assert await blocked()
        assert time.monotonic() - start < 10
        assert node.rings == seen
    finally:
        await asyncio.to_thread(rabbit.ctl, "set_vm_memory_high_watermark", "absolute", "512MB")
    await eventually(lambda: node.rings > seen, 60, "the ring is heard")
    await eventually(lambda: answers(bus), 60, "calls pass")


async def test_a_doorbell_queue_that_cannot_be_used_disables_rings_only(
    make: Make,  # noqa: F811
    rabbit: Rabbit,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = f"{topic_of(make)}.{HOST}.doorbell"
    async with await aio_pika.connect(amqp(rabbit)) as connection:
        channel = await connection.channel()
        await channel.declare_queue(queue, durable=True)  # not as ours is
        monkeypatch.setattr(rabbit_doorbell, "Pause", lambda *_: Pause(0.1, 0.2))
        node, bus = Node(), make()
        await node.serve(make())
        assert await answers(bus)
        await bus.ring(HOST)

        def complaints() -> list[str]:
            lines = [record.getMessage() for record in caplog.records]
            return [line for line in lines if f"action=bus-doorbell queue={queue} result=failed" in line]

        await eventually(complaints, 30, "it is told")
        await channel.queue_delete(queue)
        await until(node.rung)  # the agent looks as soon as it hears again
        assert len(complaints()) == 1
    seen = node.rings
    await bus.ring(HOST)
    await eventually(lambda: node.rings > seen, 30, "rings are heard")


# -- the whole product in this process ----------------------------------------------------------------------


@pytest.fixture
async def cloud(rabbit: Rabbit, tmp_path: Path) -> AsyncIterator[SimulatedCloud]:
    options = {
        "transport_url": rabbit.url(query="rabbit_retry_interval=0.1&rabbit_interval_max=1"),
        "rpc_response_timeout": 6,
        "compute__topic": f"t{uuid4().hex[:12]}",
    }
    async with simulated_cloud(tmp_path, **options) as made:
        yield made


async def create(http: httpx.AsyncClient) -> str:
    answer = await http.post("/v1/containers?run=true", json={"image": "busybox", "command": ["sleep", "60"]})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["uuid"])


async def test_a_doorbell_that_is_lost_is_made_good_by_the_sweep(cloud: SimulatedCloud, rabbit: Rabbit) -> None:
    topic = cloud.api.conf.compute.topic
    stolen: list[bytes] = []

    async def steal(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        stolen.append(message.body)
        await message.ack()

    async with await aio_pika.connect(amqp(rabbit)) as connection:
        channel = await connection.channel()
        queue = await channel.get_queue(f"{topic}.sim.doorbell")
        await queue.consume(steal, arguments={"x-priority": 2**31 - 1})
        uuid = await create(cloud.http)
        await cloud.wait(uuid, "Running")
        assert stolen


@pytest.mark.parametrize("fault", ["stop", "hang"])
async def test_no_request_is_lost_and_the_api_answers_while_the_broker_does_not(
    cloud: SimulatedCloud, rabbit: Rabbit, fault: str
) -> None:
    before = await create(cloud.http)
    await cloud.wait(before, "Running")
    await asyncio.to_thread(getattr(rabbit, fault))
    start = time.monotonic()
    uuid = await create(cloud.http)
    assert (await cloud.http.get("/v1/containers")).status_code == 200
    assert (await cloud.http.post(f"/v1/containers/{before}/stop?timeout=1")).status_code == 202
    assert time.monotonic() - start < 6  # none of them has waited for an answer
    await cloud.wait(uuid, "Running")
    await cloud.wait(before, "Stopped")
    member = cloud.api.client(("member",))
    answers_of = await asyncio.gather(*(who.get(f"/v1/containers/{uuid}/logs") for who in (cloud.http, member)))
    admins, members = (answer.json()["errors"][0]["title"] for answer in answers_of)
    assert [answer.status_code for answer in answers_of] == [503, 503]
    assert "host sim " in admins
    assert "message broker does not answer" in admins
    assert "sim" not in members.replace(uuid, "")
    assert "broker" not in members
    rabbit.resume()
    if fault == "stop":
        await asyncio.to_thread(rabbit.start)

    async def logs() -> bool:
        return (await cloud.http.get(f"/v1/containers/{uuid}/logs")).status_code == 200

    await eventually(logs, 60, "the node can be asked again")
    await cloud.truth()
