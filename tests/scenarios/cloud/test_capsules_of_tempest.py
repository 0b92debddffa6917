"""The four tests of capsules that zun-tempest-plugin has and skips, as our own, beside Neutron and Cinder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.scenarios import capsule_templates as templates
from tests.support.capsule_node import CapsuleNode
from tests.support.cloud_product import CloudProduct
from tests.support.real_cloud import RealCloud
from tests.support.registry import Registry, start_registry
from tests.tempest.images import push_all

pytestmark = pytest.mark.xdist_group("s2-cloud")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry with the images that the templates name."""
    registry = start_registry(tmp_path_factory.mktemp("registry"))
    try:
        push_all(registry)
        yield registry
    finally:
        registry.stop()


@pytest.fixture
def make_cloud_product(
    make_cloud_product: Callable[..., CloudProduct], images: Registry
) -> Callable[..., CloudProduct]:
    """Products that pull from it."""

    def make(**more: Any) -> CloudProduct:
        return make_cloud_product(**more).conf(docker={"default_registry": images.address})

    return make


@pytest.fixture
def member(rig: CapsuleNode) -> RealCloud:
    return RealCloud(rig.product, rig.project.account)


def test_one_container_each_with_as_little_and_as_much_as_can_be_said(rig: CapsuleNode) -> None:
    uuids = [rig.ask(templates.plain()), rig.ask(templates.full())]
    for uuid in uuids:
        templates.all_run(rig.wait(uuid, "Running"))
    [port] = rig.testbed.ports(device_id=uuids[1])
    [group] = rig.testbed.security_groups(name=f"zun-{uuids[1]}")
    assert port["security_groups"] == [group["id"]]
    rules = [one for one in group["security_group_rules"] if one["direction"] == "ingress"]
    assert {(one["protocol"], one["port_range_min"], one["port_range_max"]) for one in rules} == {("tcp", 80, 80)}
    rig.delete(*uuids)


def test_a_volume_of_cinder_is_in_use_while_the_capsule_has_it_and_available_afterwards(
    rig: CapsuleNode, member: RealCloud
) -> None:
    volume = member.make_volume()
    uuid = rig.ask(templates.with_volume(volume))
    templates.all_run(rig.wait(uuid, "Running"))
    assert member.volume_status(volume) == "in-use"
    rig.delete(uuid)
    assert member.volume_status(volume) == "available"


def test_a_container_fetches_what_an_init_container_wrote_and_the_capsule_serves(
    rig: CapsuleNode, member: RealCloud
) -> None:
    uuid = rig.ask(templates.with_init_container())
    shown = rig.wait(uuid, "Running")
    templates.all_run(shown)
    command = ["curl", "-s", "-m", "20", templates.address_of(shown)]
    fetching = member.create(image="cirros:latest", image_driver="docker", command=command)["uuid"]
    member.wait(fetching, "Stopped")
    assert templates.PAGE in member.http.get(f"/v1/containers/{fetching}/logs").json()
    member.delete(fetching, stop="true")
    rig.delete(uuid)
    assert member.own_volumes() == []
