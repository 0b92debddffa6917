"""Fixtures of all tests: the engine, the product as a process, and the check that nothing is left behind."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.support.engine import SOCKET, Engine
from tests.support.product import Product
from tests.support.rabbit import Rabbit
from tests.support.stock_client import StockClient

ENGINE_FOLDERS = {"engine", "scenarios", "faults"}
_PRODUCTS = pytest.StashKey[list[Product]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_PRODUCTS] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests in the folders that need an engine or servers say so; those that share one stay on one worker."""
    for item in items:
        folders = set(item.path.relative_to(item.config.rootpath).parts)
        if ENGINE_FOLDERS & folders:
            item.add_marker(pytest.mark.engine)
        if "services" in folders:
            one = "rabbitmq" if "rabbit" in getattr(item, "fixturenames", ()) else "services"
            item.add_marker(pytest.mark.services)
            item.add_marker(pytest.mark.xdist_group(one))  # one server of a kind serves all of its tests
        if "shared_product" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failing test shows the end of its products' logs."""
    report = yield
    if report.failed:
        for product in item.config.stash[_PRODUCTS]:
            report.sections.append((f"log of {product.url} (last lines)", "\n".join(product.log().splitlines()[-60:])))
    return report


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The real container engine. A machine without one fails the test: nothing is skipped silently."""
    found = Engine()
    if not found.ping():
        pytest.fail(f"No Docker engine answers at {SOCKET}; `make test` installs and starts one.")
    yield found
    found.close()


@pytest.fixture(scope="session")
def busybox(engine: Engine) -> str:
    """Name of an image that is in the engine; use it with ``image_pull_policy: ifnotpresent``."""
    return engine.load_busybox()


@pytest.fixture(scope="session")
def rabbit() -> Iterator[Rabbit]:
    """A RabbitMQ of our own. A machine without the program fails the test: nothing is skipped silently."""
    folder = Path(tempfile.mkdtemp(prefix="zun-rabbit-"))
    folder.chmod(0o755)  # the server runs as another user
    server = Rabbit(folder)
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def make_product(request: pytest.FixtureRequest, tmp_path: Path, engine: Engine) -> Iterator[Callable[[], Product]]:
    """Makes products (not started), each with its own state, port and deployment."""
    made: list[Product] = []

    def make() -> Product:
        product = Product(tmp_path / f"zun{len(made)}", engine)
        made.append(product)
        request.config.stash[_PRODUCTS].append(product)
        return product

    yield make
    _end(request.config, made)


@pytest.fixture
def product(make_product: Callable[[], Product]) -> Product:
    """A running product for one test."""
    return make_product().start()


@pytest.fixture(scope="module")
def shared_product(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, engine: Engine
) -> Iterator[Product]:
    """A running product for the tests of a module; emptied after each of them."""
    product = Product(tmp_path_factory.mktemp("shared") / "zun", engine)
    request.config.stash[_PRODUCTS].append(product)
    try:
        yield product.start()
    finally:
        _end(request.config, [product])


@pytest.fixture
def stock(product: Product) -> StockClient:
    """The stock client with the admin token of ``product``."""
    return StockClient(product.url, product.admin_token)


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a test that shares a product: deleting its containers frees all they held."""
    yield
    if "shared_product" in request.fixturenames:
        shared: Product = request.getfixturevalue("shared_product")
        if not shared.running:
            shared.start()
        shared.clear()


def _end(config: pytest.Config, products: list[Product]) -> None:
    """Stops products and proves that nothing of them is left on the machine."""
    remains: list[str] = []
    for product in products:
        try:
            product.stop()
        finally:
            remains += product.remains()
            config.stash[_PRODUCTS].remove(product)
    assert not remains, f"left on the machine: {remains}"
