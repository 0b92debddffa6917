"""A broker that a partition hides, and one whose queues are deleted: API and agent as processes, real Docker."""

from __future__ import annotations

import configparser
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cloud import Cloud
from tests.support.processes import agent_up, healthy, running
from tests.support.product import Product
from tests.support.rabbit import URL_PASSWORD, USER, Rabbit
from tests.support.tcp_proxy import TcpProxy
from tests.support.wait import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

_QUICK = "rabbit_retry_interval=0.2&rabbit_interval_max=1"


@pytest.fixture
def proxy(rabbit: Rabbit) -> Iterator[TcpProxy]:
    """Both processes' way to the broker."""
    made = TcpProxy(rabbit.port)
    yield made
    made.stop()


@pytest.fixture
def cloud(make_product: Callable[[], Product], busybox: str, proxy: TcpProxy) -> Iterator[Cloud]:
    product = make_product()
    product.conf(
        DEFAULT={
            "transport_url": f"rabbit://{USER}:{URL_PASSWORD}@127.0.0.1:{proxy.port}/?{_QUICK}",
            "rpc_response_timeout": 6,
        },
        oslo_messaging_rabbit={"heartbeat_timeout_threshold": 4},
        compute={"topic": f"apart-{product.port}", "sweep_interval": 1},
    )
    product.start().terminate()  # makes tables and token
    with running("zun-api", product):
        wait_until(lambda: healthy(product), 120, "zun-api answers")
        with running("zun-compute", product):
            made = Cloud(product, busybox)
            wait_until(lambda: agent_up(made.http), 120, "zun-compute is up")
            yield made
            product.clear()
    for name in ("zun-api", "zun-compute"):
        assert "Traceback" not in (product.state.root / f"{name}.log").read_text()


def answered(cloud: Cloud, uuid: str) -> bool:
    """Is a question to the node answered? Otherwise it is refused, with a sentence."""
    answer = cloud.http.post(f"/v1/containers/{uuid}/execute", params={"command": "echo hello"})
    assert answer.status_code in (200, 503), answer.text
    if answer.status_code == 503:
        assert (
            "message broker" in answer.json()["errors"][0]["title"] or "answer" in answer.json()["errors"][0]["title"]
        )
    return answer.status_code == 200


def test_a_broker_that_a_partition_hides(cloud: Cloud, proxy: TcpProxy) -> None:
    before = cloud.running(image_pull_policy="ifnotpresent")["uuid"]
    proxy.fault("hang")  # connections stay, nothing passes
    assert not answered(cloud, before)
    made = cloud.create(image_pull_policy="ifnotpresent")["uuid"]
    cloud.act(before, "stop", timeout="1")
    cloud.wait(made, "Running")  # by the sweep: the database is the truth
    cloud.wait(before, "Stopped")
    assert not answered(cloud, made)
    proxy.lift()
    wait_until(lambda: answered(cloud, made), 60, "the node can be asked again")
    after = cloud.running(image_pull_policy="ifnotpresent")["uuid"]
    assert answered(cloud, after)


def test_all_queues_are_deleted(cloud: Cloud, rabbit: Rabbit) -> None:
    before = cloud.running(image_pull_policy="ifnotpresent")["uuid"]
    topic = topic_of(cloud.product.state.conf_file)
    ours = [name for name, *_ in rabbit.queues() if topic in name]
    assert ours
    assert sum(rabbit.delete_queue(name) for name in ours) >= 2
    wait_until(lambda: answered(cloud, before), 60, "the node can be asked again")
    cloud.running(image_pull_policy="ifnotpresent")


def topic_of(file: Path) -> str:
    parser = configparser.RawConfigParser(default_section="")
    parser.read(file)
    return parser.get("compute", "topic")
