"""Scenario 6: node inventory and the scheduling loop, on the embedded parts."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime

import psutil

from tests.support.cloud import Cloud
from tests.support.product import Product
from tests.support.registry import Registry
from tests.support.wait import wait_until

NO_HOST = "There are not enough hosts available."


def test_s6_1_s6_2_the_host_shows_what_the_machine_has(cloud: Cloud) -> None:
    (host,) = cloud.get("/hosts")["hosts"]
    assert host["cpus"] == os.cpu_count()
    assert abs(host["mem_total"] - psutil.virtual_memory().total // 1024**2) <= 1
    assert "runc" in host["runtimes"]
    assert (host["os_type"], host["architecture"]) == ("linux", os.uname().machine)
    assert cloud.get(f"/hosts/{host['hostname']}")["uuid"] == host["uuid"]


def test_s6_1_s6_3_heartbeats_follow_the_interval(make_product: Callable[[], Product]) -> None:
    product = make_product().conf(DEFAULT={"periodic_interval_max": "1"}).start()
    cloud = Cloud(product, "busybox")

    def beat() -> tuple[int, datetime]:
        (service,) = cloud.get("/services")["services"]
        return service["report_count"], datetime.fromisoformat(service["last_seen_up"])

    count, seen = beat()
    wait_until(lambda: beat()[0] > count and beat()[1] > seen, 30, "report_count and last_seen_up rise")


def test_s6_4_inventory_and_ratios_reach_placement(cloud: Cloud) -> None:
    rows = {row["resource_class"]: row for row in cloud.product.query("SELECT * FROM local_inventories")}
    assert set(rows) == {"CUSTOM_ZUN_MILLICPU", "MEMORY_MB", "DISK_GB"}
    assert rows["CUSTOM_ZUN_MILLICPU"]["total"] == (os.cpu_count() or 0) * 1000
    assert rows["CUSTOM_ZUN_MILLICPU"]["allocation_ratio"] == 16.0
    assert rows["MEMORY_MB"]["reserved"] == 512


def test_s6_5_a_disabled_or_forced_down_node_gets_no_containers_at_once(cloud: Cloud) -> None:
    (service,) = cloud.get("/services")["services"]
    query = {"host": service["host"], "binary": "zun-compute"}
    for off, on in (
        ({"path": "disable", "disabled_reason": "upkeep"}, {"path": "enable"}),
        ({"path": "force_down", "forced_down": "true"}, {"path": "force_down", "forced_down": "false"}),
    ):
        path = off.pop("path")
        assert cloud.http.put(f"/v1/services/{path}", params=query | off).status_code == 200
        try:
            assert cloud.create()["status_reason"] == NO_HOST
        finally:
            path = on.pop("path")
            assert cloud.http.put(f"/v1/services/{path}", params=query | on).status_code == 200
        assert cloud.running()


def test_s6_5_a_node_that_placement_knew_as_disabled_is_chosen_as_soon_as_it_is_enabled(cloud: Cloud) -> None:
    (service,) = cloud.get("/services")["services"]
    query = {"host": service["host"], "binary": "zun-compute"}
    for _ in range(5):  # the node's own report is a minute away
        for path in ("disable", "enable"):
            assert cloud.http.put(f"/v1/services/{path}", params=query).status_code == 200
            (provider,) = cloud.product.query("SELECT traits FROM local_providers")
            assert ("COMPUTE_STATUS_DISABLED" in provider["traits"]) == (path == "disable")
        assert cloud.create()["status"] == "Creating"


def test_s6_7_zone_and_runtime_are_respected(cloud: Cloud) -> None:
    assert cloud.create(availability_zone="nova")["status"] == "Creating"
    assert cloud.create(availability_zone="elsewhere")["status_reason"] == NO_HOST
    assert cloud.create(runtime="no-such-runtime")["status_reason"] == NO_HOST
    assert cloud.running(runtime="runc")
    log = cloud.product.log()
    assert "AvailabilityZoneFilter" in log
    assert "RuntimeFilter" in log


def test_s1_25_amounts_no_node_has_are_logged_as_no_candidates(
    make_product: Callable[[], Product], registry: Registry
) -> None:
    product = make_product().conf(
        compute={"cpu_allocation_ratio": "0.1"}, docker={"default_registry": registry.address}
    )
    cloud = Cloud(product.start(), "busybox")
    assert cloud.create(cpu=16)["status_reason"] == NO_HOST
    assert "Got no allocation candidates from the Placement API" in product.log()
    product.clear()


def test_s6_8_fractions_of_a_core_are_counted_as_fractions(cloud: Cloud) -> None:
    uuid = cloud.create(cpu=0.1, memory=16, run=False)["uuid"]
    assert cloud.allocation(uuid)["CUSTOM_ZUN_MILLICPU"] == 100


def test_s6_8_whole_vcpus_are_counted_where_the_operator_says_so(
    make_product: Callable[[], Product], registry: Registry
) -> None:
    product = make_product().conf(compute={"fractional_cpu": "false"}, docker={"default_registry": registry.address})
    cloud = Cloud(product.start(), "busybox")
    uuid = cloud.create(cpu=0.1, memory=16, run=False)["uuid"]
    assert cloud.allocation(uuid) == {"VCPU": 1, "MEMORY_MB": 16}
    product.clear()


def test_s6_10_disk_is_claimed_only_when_it_is_asked_for(cloud: Cloud) -> None:
    uuid = cloud.create(run=False)["uuid"]
    assert "DISK_GB" not in cloud.allocation(uuid)


def test_availability_zones_are_listed_for_everyone(member: Cloud) -> None:
    assert member.get("/availability_zones")["availability_zones"] == [{"availability_zone": "nova"}]
