"""zun-api and zun-compute as two processes over RabbitMQ, on the real engine."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.support.log_follower import COUNTS_ON, ClientFollower, all_counted, made, told_to_stop
from tests.support.processes import agent_up, healthy, running
from tests.support.product import Product
from tests.support.rabbit import Rabbit
from tests.support.wait import wait_until

pytestmark = pytest.mark.engine


def test_a_containers_life(make_product: Callable[[], Product], busybox: str, rabbit: Rabbit) -> None:
    product = make_product().start()  # makes database and token
    product.terminate()
    product.conf(
        DEFAULT={"transport_url": rabbit.tls_url()},
        oslo_messaging_rabbit={"rabbit_retry_interval": 0.2, "rabbit_interval_max": 1},
        compute={"topic": f"life-{product.port}"},
    )
    body = {"image": busybox, "image_pull_policy": "ifnotpresent", "command": ["sleep", "600"], "memory": "64"}
    with running("zun-api", product), running("zun-compute", product):
        wait_until(lambda: healthy(product), 90, "zun-api answers")
        http = product.http()
        wait_until(lambda: agent_up(http), 90, "zun-compute is up")
        made = http.post("/v1/containers?run=true", json=body)
        assert made.status_code == 202, made.text
        path = f"/v1/containers/{made.json()['uuid']}"
        product.wait_status(path, "Running")
        assert said(product, path) == "hello"
        assert http.post(f"{path}/stop", params={"timeout": "1"}).status_code == 202
        product.wait_status(path, "Stopped")
        rabbit.kill()
        try:
            assert http.post(f"{path}/start").status_code == 202
            product.wait_status(path, "Running")  # by the sweep
        finally:
            rabbit.start()
        wait_until(lambda: said(product, path) == "hello", 30, "both are connected again")
        assert http.delete(path, params={"force": "true"}).status_code == 204
        wait_until(lambda: http.get(path).status_code == 404, 60, "it is gone")
        wait_until(lambda: not product.leaks(), 30, "nothing is held")
    for name in ("zun-api", "zun-compute"):
        log = (product.state.root / f"{name}.log").read_text()
        assert log.count("result=connected") == 2
        assert "Traceback" not in log
        assert "p@ss" not in log
        assert "p%40ss" not in log


def said(product: Product, path: str) -> str:
    """What a command in the container says; asked over the bus."""
    answer = product.http().post(f"{path}/execute", params={"command": "echo hello"})
    return str(answer.json()["output"]).strip() if answer.status_code == 200 else answer.text


@pytest.mark.timeout(600)
def test_a_log_is_followed_over_the_ends_of_agent_and_broker(
    make_product: Callable[[], Product], busybox: str, rabbit: Rabbit
) -> None:
    product = make_product().start()
    product.terminate()
    product.conf(
        DEFAULT={"transport_url": rabbit.tls_url()},
        oslo_messaging_rabbit={"rabbit_retry_interval": 0.2, "rabbit_interval_max": 1},
        compute={"topic": f"log-{product.port}"},
    )
    with running("zun-api", product):
        wait_until(lambda: healthy(product), 120, "zun-api answers")
        http = product.http()
        with running("zun-compute", product):
            wait_until(lambda: agent_up(http), 120, "zun-compute is up")
            uuid = made(product, busybox, COUNTS_ON)
            follower = ClientFollower(product.http, uuid)
            reading = threading.Thread(target=follower.read)
            reading.start()
            wait_until(lambda: len(follower.lines) >= 50, 60, "lines come")
            rabbit.kill()
            try:
                wait_until(lambda: any(one.name == "waiting" for one in follower.events), 90, "nobody answers")
            finally:
                rabbit.start()
            goal = len(follower.lines) + 50
            wait_until(lambda: len(follower.lines) >= goal, 90, "it goes on with the broker")
        before = len(follower.lines)
        with running("zun-compute", product):
            wait_until(lambda: len(follower.lines) > before, 150, "it goes on with the next agent")
            told_to_stop(product, uuid)
            reading.join(300)
            assert not reading.is_alive(), "the stream has ended with the container"
            assert all_counted(product, uuid, follower.lines)
            product.clear()
