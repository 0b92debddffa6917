"""Scenario 6 beside a cloud: inventory and claims in the real Placement, and Placement at fault."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.support.cloud_product import CloudProduct
from tests.support.placement import PORT
from tests.support.tcp_proxy import TcpProxy, tcp_proxy
from tests.support.testbed import Testbed
from tests.support.wait import wait_until

DISABLED = "CUSTOM_ZUN_COMPUTE_STATUS_DISABLED"
NO_HOST = "There are not enough hosts available."
MILLICPU = "CUSTOM_ZUN_MILLICPU"
CPUS = os.cpu_count() or 0


@pytest.fixture
def make(make_cloud_product: Callable[..., CloudProduct]) -> Iterator[Callable[..., CloudProduct]]:
    """Products without a network of the cloud; emptied and closed at the end."""
    made: list[CloudProduct] = []

    def product(**sections: dict[str, Any]) -> CloudProduct:
        one = make_cloud_product()
        one.conf(
            DEFAULT={"periodic_interval_max": 1, "image_driver_list": "docker"},
            network={"driver": "local"},
            volume={"driver_list": "local"},
        ).conf(**sections)
        made.append(one)
        return one

    yield product
    for one in made:
        if not one.closed and any(service.running for service in one.services):
            one.clear()


@pytest.fixture
def proxy() -> Iterator[TcpProxy]:
    with tcp_proxy(PORT) as before_placement:
        yield before_placement


def create(product: CloudProduct, status: int = 202, **body: Any) -> dict[str, Any]:
    """A container that is made and not started."""
    asked = {"image": product.image, "cpu": 0.1, "memory": 16, **body}
    answer = product.http().post("/v1/containers", params={"run": "false"}, json=asked)
    assert answer.status_code == status, answer.text
    made: dict[str, Any] = answer.json()
    return made


def wait_created(product: CloudProduct, uuid: str) -> None:
    def status() -> str:
        found: str = product.http().get(f"/v1/containers/{uuid}").json()["status"]
        assert found != "Error"
        return found

    wait_until(lambda: status() == "Created", 60, f"{uuid} is created")


def test_s6_4_s6_5_inventory_with_ratios_and_reserved_and_the_trait_of_disabled_nodes(
    make: Callable[..., CloudProduct], testbed: Testbed
) -> None:
    product = make(compute={"cpu_allocation_ratio": 4, "reserved_host_cpus": 1, "reserved_host_disk_mb": 1025}).start()
    host, http = product.node.host, product.http()
    found = testbed.inventories(host)
    assert set(found) == {"VCPU", "MEMORY_MB", "DISK_GB"}
    (shown,) = http.get("/v1/hosts").json()["hosts"]
    facts = {name: (row["total"], row["reserved"], row["allocation_ratio"]) for name, row in found.items()}
    assert facts == {
        "VCPU": (CPUS, 1, 4.0),
        "MEMORY_MB": (shown["mem_total"], 512, 1.5),
        "DISK_GB": (shown["disk_total"], 2, 1.0),
    }
    provider = testbed.provider(host)
    assert provider is not None
    assert provider["uuid"] == shown["uuid"]
    query = {"host": host, "binary": "zun-compute"}
    assert http.put("/v1/services/disable", params=query).status_code == 200
    assert create(product)["status_reason"] == NO_HOST  # at once, before the trait is there
    wait_until(lambda: DISABLED in testbed.traits(host), 15, "the trait is set")
    assert create(product)["status_reason"] == NO_HOST
    assert "Got no allocation candidates from the Placement API" in product.api.log()
    assert http.put("/v1/services/enable", params=query).status_code == 200
    wait_until(lambda: DISABLED not in testbed.traits(host), 15, "the trait is gone")
    wait_created(product, create(product)["uuid"])


def test_s6_8_s6_9_s6_10_claims_follow_the_options(make: Callable[..., CloudProduct], testbed: Testbed) -> None:
    product = make(compute={"initial_cpu_allocation_ratio": 8}).start()
    host = product.node.host
    whole = create(product)["uuid"]
    assert testbed.allocation(whole) == {"VCPU": 1, "MEMORY_MB": 16}
    wait_created(product, whole)
    assert testbed.inventories(host)["VCPU"]["allocation_ratio"] == 8

    product.conf(compute={"cpu_allocation_ratio": 3, "fractional_cpu": "true"}).restart()
    wait_until(lambda: MILLICPU in testbed.inventories(host), 15, "thousandths are counted")
    old = testbed.inventories(host)["VCPU"]
    assert old["reserved"] == old["total"]  # a container holds one: nothing more is given
    assert testbed.inventories(host)[MILLICPU]["total"] == CPUS * 1000
    assert testbed.inventories(host)[MILLICPU]["allocation_ratio"] == 3
    fraction = create(product)["uuid"]
    assert testbed.allocation(fraction) == {MILLICPU: 100, "MEMORY_MB": 16}
    wait_created(product, fraction)

    assert product.http().delete(f"/v1/containers/{whole}").status_code == 204
    product.check_no_leak(whole)
    product.restart()
    wait_until(lambda: "VCPU" not in testbed.inventories(host), 15, "the class without holders is gone")


@pytest.mark.parametrize("fault", ["refuse", "500"])
def test_placement_at_fault_is_named_and_never_not_enough_hosts(
    make: Callable[..., CloudProduct], proxy: TcpProxy, fault: str
) -> None:
    product = make(placement_client={"endpoint_override": proxy.url, "timeout": 5}).start()
    kept = create(product)["uuid"]
    wait_created(product, kept)
    proxy.mode(fault)
    refused = product.http().post("/v1/containers", json={"image": product.image})
    assert refused.status_code == 503, refused.text
    assert "Placement is not available" in refused.json()["errors"][0]["detail"]
    assert product.recorded() == {kept}
    assert product.http().delete(f"/v1/containers/{kept}").status_code == 204
    wait_until(lambda: "action=delete" in product.node.log() and "result=retry" in product.node.log(), 60, "a try")
    assert product.recorded() == {kept}  # never forgotten while it holds something
    proxy.mode("pass")
    wait_until(lambda: not product.recorded(), 60, "the delete is finished")
    product.check_no_leak(kept)


def test_a_name_that_another_provider_has_is_told(make: Callable[..., CloudProduct], testbed: Testbed) -> None:
    product = make()
    host = product.node.host
    other = str(uuid4())
    testbed.admin.call("placement", "POST", "/resource_providers", json={"uuid": other, "name": host})
    product.prepare().api.spawn()
    product.wait_up()
    product.node.spawn()
    wait_until(lambda: "host_shared_with_nova" in product.node.log(), 30, "the node says why it waits")
    assert product.hosts_up() == set()
    testbed.admin.call("placement", "DELETE", f"/resource_providers/{other}")
    product.wait_up()


def test_a_host_shared_with_nova_uses_novas_provider(make: Callable[..., CloudProduct], testbed: Testbed) -> None:
    product = make(compute={"host_shared_with_nova": "true"}, DEFAULT={"sync_container_state_interval": 1})
    product.conf(compute={"orphan_grace_seconds": 1})
    host, novas, instance = product.node.host, str(uuid4()), str(uuid4())
    headers = {"OpenStack-API-Version": "placement 1.38"}
    admin = testbed.admin
    admin.call("placement", "POST", "/resource_providers", json={"uuid": novas, "name": host}, headers=headers)
    totals = {"VCPU": 8, "MEMORY_MB": 1000, "DISK_GB": 50}
    inventories = {name: {"total": total, "max_unit": total} for name, total in totals.items()}
    admin.call(
        "placement",
        "PUT",
        f"/resource_providers/{novas}/inventories",
        json={"resource_provider_generation": 0, "inventories": inventories},
        headers=headers,
    )
    held = {
        "allocations": {novas: {"resources": {"VCPU": 2, "MEMORY_MB": 100}}},
        "project_id": "nova",
        "user_id": "nova",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    admin.call("placement", "PUT", f"/allocations/{instance}", json=held, headers=headers)
    try:
        product.start()
        (shown,) = product.http().get("/v1/hosts").json()["hosts"]
        assert shown["uuid"] == novas
        uuid = create(product)["uuid"]
        assert testbed.allocations_on(host)[uuid] == {"VCPU": 1, "MEMORY_MB": 16}
        wait_created(product, uuid)
        assert product.http().delete(f"/v1/containers/{uuid}").status_code == 204
        wait_until(lambda: set(testbed.allocations_on(host)) == {instance}, 30, "only Nova's is left")
        syncs = product.node.log().count("action=sync rows=")
        wait_until(lambda: product.node.log().count("action=sync rows=") > syncs + 4, 30, "some syncs")
        assert set(testbed.allocations_on(host)) == {instance}
        assert {name: row["total"] for name, row in testbed.inventories(host).items()} == totals
    finally:
        product.stop()
        admin.call("placement", "DELETE", f"/allocations/{instance}")
