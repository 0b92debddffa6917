"""A drained node, as docs/howto/drain.md has it, and a lost one: agents, API and tool as processes of their own."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.agents import Agent, ended, is_on, up
from tests.support.db_servers import Server
from tests.support.page import Operator, blocks
from tests.support.processes import healthy, running
from tests.support.product import Product
from tests.support.wait import wait_until

HOSTS = ("node-1", "node-2")


@contextlib.contextmanager
def agents(product: Product) -> Iterator[dict[str, Agent]]:
    """Both of them at work; killed at the end."""
    with ended(*(Agent(product, host) for host in HOSTS)) as made:
        for agent in made.values():
            agent.start()
        yield made


@pytest.mark.timeout(600)
def test_a_node_is_drained_and_a_lost_one_is_evacuated(
    make_product: Callable[[], Product], server: Server, tmp_path: Path
) -> None:
    product = make_product()
    product.conf(
        DEFAULT={
            "container_driver": "simulated",
            "transport_url": f"unix://{tmp_path}/bus",
            "periodic_interval_max": 1,
            "service_down_time": 12,
        },
        compute={
            "evacuate_after": 15,
            "fence_seconds": 2,
            "evacuation_interval": 1,
            "sweep_interval": 1,
        },
        database={"connection": server.create_database(f"evacuate{product.port}")},
    )
    product.start().terminate()  # makes tables and token
    with running("zun-api", product), agents(product) as nodes:
        wait_until(lambda: healthy(product), 120, "zun-api answers")
        http = product.http()
        wait_until(lambda: up(http) >= set(HOSTS), 120, "both agents are up")
        _drained_by_the_page(product, http)
        _lost_and_back(product, http, nodes)
        for row in http.get("/v1/containers").json()["containers"]:
            path = f"/v1/containers/{row['uuid']}"
            assert http.delete(path, params={"force": "true"}).status_code == 204
            wait_until(lambda path=path: http.get(path).status_code == 404, 60, "it is gone")  # type: ignore[misc]


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_a_real_container_moves_with_its_addresses(
    make_product: Callable[[], Product], busybox: str, tmp_path: Path
) -> None:
    """Two agents on one engine: each touches only what carries its mark."""
    product = make_product()
    product.conf(DEFAULT={"transport_url": f"unix://{tmp_path}/bus"}, compute={"sweep_interval": 1})
    product.start().terminate()  # makes tables and token
    file = {"type": "bind", "source": "aGVsbG8=", "destination": "/etc/greeting"}
    command = ["sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait"]
    body = {"image": busybox, "image_pull_policy": "ifnotpresent", "command": command, "mounts": [file]}
    with running("zun-api", product), agents(product):
        wait_until(lambda: healthy(product), 120, "zun-api answers")
        http = product.http()
        wait_until(lambda: up(http) >= set(HOSTS), 120, "both agents are up")
        uuid = _create(product, http, "node-1", **body)
        before = http.get(f"/v1/containers/{uuid}").json()
        Operator(product).run(["zun-manage", "node", "drain", "node-1", "--deadline", "3m"])
        wait_until(lambda: is_on(http, uuid, "node-2"), 120, "it runs on the other node")
        assert http.get(f"/v1/containers/{uuid}").json()["addresses"] == before["addresses"]
        run = {"command": "cat /etc/greeting"}
        assert http.post(f"/v1/containers/{uuid}/execute", params=run).json()["output"] == "hello"
        [engine] = product.engine_containers()
        assert engine["State"] == "running"
        product.clear()


def _create(product: Product, http: httpx.Client, host: str, **body: Any) -> str:
    wanted = {"image": "busybox", "command": ["sleep", "9"], "host": host, **body}
    answer = http.post("/v1/containers", params={"run": "true"}, json=wanted)
    assert answer.status_code == 202, answer.text
    product.wait_status(f"/v1/containers/{answer.json()['uuid']}", "Running")
    return str(answer.json()["uuid"])


def _drained_by_the_page(product: Product, http: httpx.Client) -> None:
    uuid = _create(product, http, "node-1")
    status, drain, look, undrain = [command for block in blocks("drain.md", "bash") for command in block.commands()]
    operator = Operator(product)
    said = operator.run(status, code=1)
    assert f"{uuid} " in said
    assert "can be moved" in said
    operator.run(drain)
    wait_until(lambda: is_on(http, uuid, "node-2"), 60, "it runs on the other node")
    shown = json.loads(operator.run(look))
    assert (shown["empty"], shown["disabled_reason"]) == (True, "drain")
    operator.run(undrain)
    assert "enabled" in operator.run(status)
    assert http.delete(f"/v1/containers/{uuid}", params={"force": "true"}).status_code == 204


def _lost_and_back(product: Product, http: httpx.Client, nodes: dict[str, Agent]) -> None:
    heals, plain = _create(product, http, "node-2", auto_heal=True), _create(product, http, "node-2")
    nodes["node-2"].end(signal.SIGKILL)
    wait_until(lambda: is_on(http, heals, "node-1"), 180, "it is started elsewhere")
    actions = http.get(f"/v1/containers/{heals}/container_actions").json()["containerActions"]
    assert [action["action"] for action in actions] == ["evacuate", "create"]
    assert http.get(f"/v1/containers/{plain}").json()["status_detail"] == "Host down"
    nodes["node-2"].start()
    wait_until(lambda: up(http) >= set(HOSTS), 120, "it is back")
    assert is_on(http, heals, "node-1")
    product.wait_status(f"/v1/containers/{plain}", "Error")  # its engine lost everything
