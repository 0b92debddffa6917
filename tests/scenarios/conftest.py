"""A registry with an image, and a product that takes images from it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.capsule_cloud import CapsuleCloud, DockerCapsuleCloud
from tests.support.cloud import Cloud
from tests.support.engine import Engine
from tests.support.product import Product
from tests.support.registry import Registry, start_registry
from tests.support.stock_api import StockApi
from tests.support.stock_client import StockClient


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A real registry with ``busybox:latest`` and, a little different, ``other:latest``."""
    started = start_registry(tmp_path_factory.mktemp("registry"))
    started.push_busybox("busybox", "latest")
    started.push_busybox("other", "latest", marker=b"another image")
    yield started
    started.stop()


@pytest.fixture(scope="module")
def scenario_product(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, engine: Engine, registry: Registry
) -> Iterator[Product]:
    """A product whose default registry is ours; emptied and checked for leaks after each test. A module may name its
    ``SYNC_SECONDS``."""
    product = Product(tmp_path_factory.mktemp("scenario") / "zun", engine)
    product.conf(
        docker={"default_registry": registry.address},
        DEFAULT={"sync_container_state_interval": str(getattr(request.module, "SYNC_SECONDS", 5))},
        quota={"containers": "100", "cpu": "100"},
    )
    try:
        yield product.start()
    finally:
        product.stop()
        assert not product.remains(), product.remains()


@pytest.fixture
def cloud(scenario_product: Product) -> Iterator[Cloud]:
    """The admin's view. After the test every container is deleted, and nothing may be left of any."""
    yield Cloud(scenario_product, "busybox")
    if not scenario_product.running:
        scenario_product.start()
    scenario_product.clear()


@pytest.fixture
def member(cloud: Cloud) -> Cloud:
    """A plain member of a project of its own."""
    return Cloud(cloud.product, "busybox", cloud.product.token("team"))


@pytest.fixture(scope="module")
def team_token(scenario_product: Product) -> str:
    """A member's token, one for the tests of a module: making it takes as long as a command."""
    return scenario_product.token("team")


@pytest.fixture
def team(cloud: Cloud, team_token: str) -> Cloud:
    """The same user as ``user`` and ``api``, over plain HTTP."""
    return Cloud(cloud.product, "busybox", team_token)


@pytest.fixture
def user(cloud: Cloud, team_token: str) -> StockClient:
    """The `openstack` command of a plain member of project ``team``."""
    return StockClient(cloud.product.url, team_token)


@pytest.fixture
def admin(cloud: Cloud) -> StockClient:
    """The `openstack` command of the administrator."""
    return StockClient(cloud.product.url, cloud.product.admin_token)


@pytest.fixture
def api(user: StockClient) -> Iterator[StockApi]:
    """zunclient's Python interface for the user of ``team``."""
    with StockApi(user) as started:
        yield started


@pytest.fixture(scope="module")
def default_registry() -> str:
    """Of products with capsules; none, unless a module has its own."""
    return ""


@pytest.fixture(scope="module", params=[CapsuleCloud, DockerCapsuleCloud], ids=["cri", "docker"])
def capsules_running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, engine: Engine, default_registry: str
) -> Iterator[CapsuleCloud]:
    made: CapsuleCloud = request.param(tmp_path_factory.mktemp("capsules"), engine)
    if default_registry:
        made.product.conf(docker={"default_registry": default_registry})
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture
def capsules(capsules_running: CapsuleCloud) -> Iterator[CapsuleCloud]:
    """A machine that takes capsules, once in each engine. Emptied after each test; then nothing of any is left."""
    yield capsules_running
    capsules_running.clear()
