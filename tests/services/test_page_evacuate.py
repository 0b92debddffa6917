"""docs/howto/evacuate.md, step by step: API and agents as processes, on real Docker and a MariaDB.

Both nodes are on one engine, where a container's name is taken while the lost node has it: a machine that has lost its
power is one whose containers are gone.
"""

from __future__ import annotations

import configparser
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.agents import Agent, ended, is_on, up
from tests.support.cloud import Cloud
from tests.support.db_servers import Server
from tests.support.page import Operator, blocks
from tests.support.processes import healthy, running
from tests.support.product import Product
from tests.support.tcp_proxy import TcpProxy, tcp_proxy
from tests.support.wait import wait_until

FASTER = 15
"""Times of the page are so many times shorter here."""


@pytest.fixture
def mariadb(servers: Callable[[str], Server]) -> Server:
    return servers("mariadb")


@pytest.fixture
def line(mariadb: Server) -> Iterator[TcpProxy]:
    """What node-1 reaches the database by."""
    with tcp_proxy(mariadb.port) as proxy:
        yield proxy


def options() -> dict[str, dict[str, str]]:
    """What the page has in ``zun.conf``, commented lines too, with shorter times."""
    [block] = blocks("evacuate.md", "ini")
    parser = configparser.RawConfigParser(default_section="")
    parser.read_string(block.text.replace("# fence", "fence"))
    return {
        section: {
            name: str(int(value) // FASTER) if value.isdigit() else value for name, value in parser.items(section)
        }
        for section in parser.sections()
    }


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_a_node_that_is_cut_off_and_one_that_is_off(
    make_product: Callable[[], Product], mariadb: Server, line: TcpProxy, busybox: str, tmp_path: Path
) -> None:
    product = make_product()
    url = mariadb.create_database(f"page{product.port}")
    product.conf(
        **{section: dict(found) for section, found in options().items()},
        database={"connection": url},
    )
    product.conf(
        DEFAULT={"transport_url": f"unix://{tmp_path}/bus", "periodic_interval_max": 1},
        compute={"evacuation_interval": 1, "sweep_interval": 1},
    )
    product.start().terminate()  # makes tables and token
    far = {"connection": url.replace(f":{mariadb.port}/", f":{line.port}/")}
    first, second = Agent(product, "node-1", database=far), Agent(product, "node-2")
    with running("zun-api", product), ended(first, second):
        wait_until(lambda: healthy(product), 120, "zun-api answers")
        cloud, operator = Cloud(product, busybox), Operator(product)
        first.start()
        wait_until(lambda: "node-1" in up(cloud.http), 120, "the first node is up")
        uuid = cloud.running(name="web", auto_heal=True, image_pull_policy="ifnotpresent")["uuid"]
        addresses = cloud.get(f"/containers/{uuid}")["addresses"]
        line.mode("refuse")
        _stopped_by_the_fence(cloud, first, uuid)
        product.engine.remove(f"zun-{uuid}")
        second.start()
        wait_until(lambda: is_on(cloud.http, uuid, "node-2"), 180, "it is started elsewhere")
        assert cloud.get(f"/containers/{uuid}")["addresses"] == addresses
        _told_by_its_action(operator, cloud, uuid)
        line.mode("pass")
        wait_until(lambda: "result=open again started=0 removed=1" in first.log(), 120, "node-1 has given it up")
        wait_until(lambda: up(cloud.http) == {"node-1", "node-2"}, 60, "both are up")
        assert is_on(cloud.http, uuid, "node-2")
        second.end(signal.SIGKILL)
        product.engine.remove(f"zun-{uuid}")
        _said_to_be_off(operator, cloud.http, "node-2")
        wait_until(lambda: is_on(cloud.http, uuid, "node-1"), 180, "it is back on the first")
        product.clear()


def _stopped_by_the_fence(cloud: Cloud, agent: Agent, uuid: str) -> None:
    wait_until(lambda: not (cloud.engine(uuid) or {})["State"]["Running"], 120, "its node stops it")
    assert "action=fence" in agent.log()
    wait_until(lambda: "result=stopped containers=1" in agent.log(), 60, "it has stopped, and its disks are flushed")
    wait_until(lambda: cloud.get(f"/containers/{uuid}")["status_detail"] == "Host down", 60, "others see the host down")


def _told_by_its_action(operator: Operator, cloud: Cloud, uuid: str) -> None:
    [newest, *_] = cloud.actions(uuid)
    listing, steps = (block for block in blocks("evacuate.md", "sh") if "action" in block.text), ""
    for block in listing:
        for command in block.commands(NAME="web", REQUEST_ID=newest["request_id"]):
            steps = operator.run(command)
            assert "evacuate" in steps
        promised = block.text.rpartition("#")[2].strip().split(", ")
    events = cloud.action(uuid, newest["request_id"])["events"]
    done = [event["event"] for event in reversed(events)]
    assert sorted(done) == sorted(promised)
    assert [done[0], done[1], *done[-2:]] == [promised[0], promised[1], *promised[-2:]], (
        "the others may go side by side"
    )
    assert all(name in steps for name in promised)


def _said_to_be_off(operator: Operator, http: httpx.Client, host: str) -> None:
    [off] = [block for block in blocks("evacuate.md", "sh") if "forcedown" in block.text]
    for command in off.commands(HOST=host):
        operator.run(command)
    rows = http.get("/v1/services").json()["services"]
    assert {row["host"] for row in rows if row["forced_down"]} == {host}
