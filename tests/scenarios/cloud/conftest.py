"""A product beside the testbed for each way into Neutron, and a tenant with a network of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.capsule_node import CapsuleNode
from tests.support.cloud_product import CloudProduct
from tests.support.containerd import Containerd
from tests.support.engine import Engine
from tests.support.real_cloud import RealCloud
from tests.support.testbed import Testbed
from tests.support.testbed_project import Project

DRIVERS = ("kuryr", "direct")


@pytest.fixture(scope="module", params=DRIVERS)
def cloud_scenario(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, testbed: Testbed, engine: Engine
) -> Iterator[CloudProduct]:
    """A running product with the network driver of the parameter; a module may name its ``OPTIONS``."""
    product = CloudProduct(tmp_path_factory.mktemp("cloud") / "zun", testbed, engine)
    product.conf(network={"driver": request.param}, volume={"timeout_wait_volume_available": 5})
    product.conf(**getattr(request.module, "OPTIONS", {}))
    try:
        yield product.start()
    finally:
        product.close()


@pytest.fixture(scope="module")
def tenant_project(cloud_scenario: CloudProduct, testbed: Testbed, engine: Engine) -> Iterator[Project]:
    """Shared by the tests of a module: making its engine network takes seconds."""
    project = Project(testbed).use_network()
    yield project
    project.remove(engine)


@pytest.fixture
def cloud(cloud_scenario: CloudProduct) -> Iterator[RealCloud]:
    """The administrator's view. After the test every container is deleted, and nothing may be left of any."""
    yield RealCloud(cloud_scenario)
    if not all(service.running for service in cloud_scenario.services):
        cloud_scenario.start()
    cloud_scenario.clear()


@pytest.fixture
def tenant(cloud: RealCloud, tenant_project: Project) -> RealCloud:
    """A member of a project that has one network."""
    return RealCloud(cloud.product, tenant_project.account)


@pytest.fixture
def stranger(cloud: RealCloud, testbed: Testbed, engine: Engine) -> Iterator[RealCloud]:
    """A member of another project, without a network."""
    project = Project(testbed)
    yield RealCloud(cloud.product, project.account)
    project.remove(engine)


@pytest.fixture
def rig(make_cloud_product: Callable[..., CloudProduct], project: Project, tmp_path: Path) -> Iterator[CapsuleNode]:
    """A node that takes capsules, for a member of ``project``."""
    folder = tmp_path / "cni"
    folder.mkdir()
    product = make_cloud_product()
    containerd = Containerd(plugins=folder)
    made = CapsuleNode(product, containerd, project, folder)
    try:
        made.start()
        yield made
    finally:
        try:
            product.stop()
        finally:
            made.close()
            containerd.close()
