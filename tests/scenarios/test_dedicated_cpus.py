"""``cpu_policy: dedicated`` on a real engine: CPUs that no other container may use."""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.support.cloud import Cloud
from tests.support.product import Product
from tests.support.registry import Registry

CPUS = os.cpu_count() or 1
NO_HOST = "There are not enough hosts available."


def pinning(make_product: Callable[[], Product], registry: Registry, floating: str = "") -> Cloud:
    product = make_product().conf(
        DEFAULT={"floating_cpu_set": floating},
        compute={"enable_cpu_pinning": "true"},
        docker={"default_registry": registry.address},
    )
    return Cloud(product.start(), "busybox")


def cpuset(cloud: Cloud, uuid: str) -> tuple[str, str]:
    engine = cloud.engine(uuid)
    assert engine is not None
    return engine["HostConfig"]["CpusetCpus"], engine["HostConfig"]["CpusetMems"]


def test_each_container_has_cpus_of_its_own_until_it_is_deleted(
    make_product: Callable[[], Product], registry: Registry
) -> None:
    cloud = pinning(make_product, registry)
    (host,) = cloud.get("/hosts")["hosts"]
    assert host["enable_cpu_pinning"] is True
    rows = [cloud.running(cpu=1, cpu_policy="dedicated") for _ in range(CPUS)]
    assert {row["cpu_policy"] for row in rows} == {"dedicated"}
    assert {cpuset(cloud, row["uuid"]) for row in rows} == {(str(cpu), "0") for cpu in range(CPUS)}
    assert cloud.create(cpu=1, cpu_policy="dedicated")["status_reason"] == NO_HOST
    freed = cpuset(cloud, rows[0]["uuid"])
    cloud.delete(rows[0]["uuid"], force="true")
    cloud.wait_gone(rows[0]["uuid"])
    again = cloud.running(cpu=1, cpu_policy="dedicated")
    assert cpuset(cloud, again["uuid"]) == freed
    cloud.act(again["uuid"], "rebuild")
    assert cpuset(cloud, cloud.wait(again["uuid"], "Running")["uuid"]) == freed
    cloud.product.clear()
    assert cloud.product.query("SELECT * FROM pinned_cpus") == []


def test_containers_without_cpus_of_their_own_stay_on_the_floating_ones(
    make_product: Callable[[], Product], registry: Registry
) -> None:
    cloud = pinning(make_product, registry, floating="0")
    assert cpuset(cloud, cloud.running()["uuid"]) == ("0", "")
    if CPUS > 1:
        assert cpuset(cloud, cloud.running(cpu=1, cpu_policy="dedicated")["uuid"]) == ("1", "0")
    cloud.product.clear()


def test_where_no_node_pins_the_request_is_refused(make_product: Callable[[], Product], registry: Registry) -> None:
    product = make_product().conf(docker={"default_registry": registry.address}).start()
    refused = Cloud(product, "busybox").ask(cpu_policy="dedicated")
    assert refused.status_code == 400
    assert "no host dedicates cores" in refused.text
