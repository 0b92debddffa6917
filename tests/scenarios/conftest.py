"""A registry with an image, and a product that takes images from it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cloud import Cloud
from tests.support.engine import Engine
from tests.support.product import Product
from tests.support.registry import Registry, start_registry


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
