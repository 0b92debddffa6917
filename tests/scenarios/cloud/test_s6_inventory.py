"""Scenario 6 beside the real services: node inventory and the scheduling loop, as Placement has them."""

from __future__ import annotations

import os
from datetime import datetime

import psutil
import pytest

from tests.support.real_cloud import RealCloud
from tests.support.testbed_project import Project
from tests.support.wait import wait_until
from zun.domain.resources import DISABLED_TRAIT

pytestmark = pytest.mark.xdist_group("s6-cloud")

OPTIONS = {"DEFAULT": {"periodic_interval_max": 1}}
NO_HOST = "There are not enough hosts available."


def test_s6_1_s6_2_the_host_shows_what_the_machine_has(cloud: RealCloud) -> None:
    (host,) = cloud.get("/hosts")["hosts"]
    assert host["hostname"] == cloud.product.node.host
    assert host["cpus"] == os.cpu_count()
    assert abs(host["mem_total"] - psutil.virtual_memory().total // 1024**2) <= 1


def test_s6_3_heartbeats_are_written(cloud: RealCloud) -> None:
    def beat() -> tuple[int, datetime]:
        (service,) = cloud.get("/services")["services"]
        return service["report_count"], datetime.fromisoformat(service["last_seen_up"])

    count, seen = beat()
    wait_until(lambda: beat()[0] > count, 20, "report_count rises")
    assert beat()[1] > seen


def test_s6_4_inventories_with_ratio_and_reserve_are_in_placement(cloud: RealCloud) -> None:
    rows = cloud.testbed.inventories(cloud.product.node.host)
    assert {"VCPU", "MEMORY_MB", "DISK_GB"} <= set(rows)
    assert (rows["VCPU"]["total"], rows["VCPU"]["allocation_ratio"]) == (os.cpu_count(), 16.0)
    assert (rows["MEMORY_MB"]["reserved"], rows["MEMORY_MB"]["allocation_ratio"]) == (512, 1.5)
    assert abs(rows["MEMORY_MB"]["total"] - psutil.virtual_memory().total // 1024**2) <= 1


def test_s6_4_s6_5_a_disabled_node_carries_the_trait_and_gets_nothing(cloud: RealCloud, tenant: RealCloud) -> None:
    host = cloud.product.node.host
    query = {"host": host, "binary": "zun-compute"}
    disabled = DISABLED_TRAIT
    assert disabled not in cloud.testbed.traits(host)
    assert cloud.http.put("/v1/services/disable", params=query | {"disabled_reason": "upkeep"}).status_code == 200
    try:
        assert tenant.create()["status_reason"] == NO_HOST
        wait_until(lambda: disabled in cloud.testbed.traits(host), 30, "Placement knows that the node is disabled")
    finally:
        assert cloud.http.put("/v1/services/enable", params=query).status_code == 200
    wait_until(lambda: disabled not in cloud.testbed.traits(host), 30, "the trait is gone")
    assert tenant.running()


def test_s1_9_s1_25_s6_6_s6_9_a_node_full_in_placement_gets_nothing(cloud: RealCloud, tenant: RealCloud) -> None:
    ratio = {"compute": {"cpu_allocation_ratio": 1.0 / (os.cpu_count() or 1)}}
    cloud.product.conf(**ratio).restart(cloud.product.node)
    host = cloud.product.node.host
    try:
        wait_until(
            lambda: cloud.testbed.inventories(host)["VCPU"]["allocation_ratio"] < 1, 30, "the ratio is in Placement"
        )
        tenant.running(cpu=0.1)
        second = tenant.create(cpu=0.1)
        assert second["status_reason"] == NO_HOST
        assert "Got no allocation candidates from the Placement API" in cloud.product.api.log()
    finally:
        cloud.product.conf(compute={"cpu_allocation_ratio": 16.0}).restart(cloud.product.node)
    wait_until(
        lambda: cloud.testbed.inventories(host)["VCPU"]["allocation_ratio"] == 16, 30, "the new ratio is in Placement"
    )
    tenant.running(cpu=0.1)


def test_s6_7_zone_and_runtime_are_respected(cloud: RealCloud, tenant: RealCloud, tenant_project: Project) -> None:
    assert tenant.create(availability_zone="elsewhere")["status_reason"] == NO_HOST
    nets = [{"network": tenant_project.network_id}]
    assert cloud.create(runtime="no-such-runtime", nets=nets)["status_reason"] == NO_HOST  # naming one is the admin's
    assert tenant.running(availability_zone="nova")


def test_s6_8_a_tenth_of_a_core_takes_a_whole_vcpu_unless_the_operator_counts_fractions(
    cloud: RealCloud, tenant: RealCloud
) -> None:
    uuid = tenant.create(cpu=0.1, memory=16, run=False)["uuid"]
    assert tenant.allocation(uuid) == {"VCPU": 1, "MEMORY_MB": 16}
    tenant.wait(uuid, "Created")
    cloud.product.clear()
    cloud.product.conf(compute={"fractional_cpu": True}).restart()
    host = cloud.product.node.host
    try:
        wait_until(lambda: "CUSTOM_ZUN_MILLICPU" in cloud.testbed.inventories(host), 30, "thousandths are in Placement")
        uuid = tenant.create(cpu=0.1, memory=16, run=False)["uuid"]
        assert tenant.allocation(uuid) == {"CUSTOM_ZUN_MILLICPU": 100, "MEMORY_MB": 16}
        tenant.wait(uuid, "Created")
    finally:
        cloud.product.clear()
        cloud.product.conf(compute={"fractional_cpu": False}).restart()


def test_s6_10_disk_is_claimed_only_when_it_will_be_limited(tenant: RealCloud) -> None:
    uuid = tenant.create(run=False)["uuid"]
    assert "DISK_GB" not in tenant.allocation(uuid)
    tenant.wait(uuid, "Created")
