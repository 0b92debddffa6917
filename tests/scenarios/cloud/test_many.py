"""Many at once: two API processes, two agents, MariaDB, RabbitMQ, and room in Placement for exactly that many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

import pytest

from tests.support.cloud_product import CloudProduct
from tests.support.real_cloud import RealCloud
from tests.support.testbed_project import Project
from tests.support.wait import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

COUNT = 100
AT_ONCE = 25
SECONDS = 600.0


@pytest.fixture
def busy(
    make_cloud_product: Callable[..., CloudProduct], new_project: Callable[..., Project]
) -> Iterator[tuple[list[RealCloud], Project]]:
    """A tenant's view through each of two API processes; two nodes with room for half of the containers each."""
    product = make_cloud_product(nodes=2, apis=2)
    product.conf(network={"driver": "direct"}, compute={"reserved_host_memory_mb": 0, "max_parallel_operations": 8})
    cores = product.engine.get("/info")["NCPU"]
    product.conf(compute={"cpu_allocation_ratio": COUNT / 2 / cores}).start()
    project = new_project().use_network()
    yield [RealCloud(product, project.account, api=number) for number in range(2)], project
    product.start()
    product.clear(SECONDS)


def test_a_hundred_at_once_are_placed_within_the_inventories(busy: tuple[list[RealCloud], Project]) -> None:
    clouds, _ = busy
    product, testbed = clouds[0].product, clouds[0].testbed
    uuids = create_many(clouds, COUNT)
    settle(clouds[0], "Running", COUNT)
    assert len(set(uuids)) == COUNT
    for node in product.nodes:
        held = testbed.allocations_on(node.host)
        assert len(held) == COUNT / 2
        inventory = testbed.inventories(node.host)["VCPU"]
        assert sum(one["VCPU"] for one in held.values()) <= inventory["total"] * inventory["allocation_ratio"]
    assert clouds[0].create()["status_reason"] == "There are not enough hosts available."
    running = [row for row in product.engine_containers() if row["State"] == "running"]
    assert len(running) == COUNT
    ports = [port for port in testbed.ports(project_id=clouds[0].account.project_id) if port["device_id"] in uuids]
    assert set(Counter(port["device_id"] for port in ports).values()) == {1}
    assert len({port["fixed_ips"][0]["ip_address"] for port in ports}) == len(ports) == COUNT


def test_an_agent_killed_in_the_middle_loses_nothing(busy: tuple[list[RealCloud], Project]) -> None:
    clouds, _ = busy
    product = clouds[0].product
    with ThreadPoolExecutor(1) as other:
        made = other.submit(create_many, clouds, 40)
        wait_until(lambda: len(product.engine_containers()) >= 5, SECONDS, "some containers are in the engine")
        product.nodes[0].kill()
        uuids = made.result()
    product.start()
    settle(clouds[0], "Running", 40)
    running = Counter(row["Names"][0] for row in product.engine_containers() if row["State"] == "running")
    assert running == Counter(f"/zun-{uuid}" for uuid in uuids)
    held = [consumer for node in product.nodes for consumer in product.testbed.allocations_on(node.host)]
    assert sorted(held) == sorted(uuids)
    ports = product.testbed.ports(project_id=clouds[0].account.project_id)
    assert sorted(port["device_id"] for port in ports if port["device_id"]) == sorted(uuids)


def create_many(clouds: list[RealCloud], count: int) -> list[str]:
    """Through all API processes in turn, ``AT_ONCE`` requests in flight."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        chosen = [cloud for cloud, _ in zip(cycle(clouds), range(count), strict=False)]
        return [str(row["uuid"]) for row in pool.map(lambda cloud: cloud.create(memory=16), chosen)]


def settle(cloud: RealCloud, status: str, count: int) -> None:
    """Until all containers of the project have ``status``; one that is Error fails the test at once."""

    def reached() -> bool:
        rows = cloud.get("/containers")["containers"]
        bad = [(row["uuid"], row["status_reason"]) for row in rows if row["status"] == "Error"]
        assert not bad, bad
        return [row["status"] for row in rows] == [status] * count

    wait_until(reached, SECONDS, f"{count} containers are {status};\n{cloud.product.tail(10)}")
