"""Fixtures of all tests: the engine, the product as a process, and the check that nothing is left behind."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support import forks
from tests.support.cloud_product import CloudProduct
from tests.support.containerd import Containerd
from tests.support.engine import SOCKET, Engine
from tests.support.product import Product
from tests.support.rabbit import Rabbit
from tests.support.stock_client import StockClient
from tests.support.testbed import Testbed
from tests.support.testbed_project import Project
from tests.support.turns import turn

ENGINE_FOLDERS = {"engine", "scenarios", "faults", "cloud", "console"}
# An example that takes long says that the machine is busy, nothing of what it is an example of.
hypothesis.settings.register_profile("zun", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("zun")
_PRODUCTS = pytest.StashKey[list[Product]]()
_CLOUD_PRODUCTS = pytest.StashKey[list[CloudProduct]]()


def pytest_configure(config: pytest.Config) -> None:
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        # A run in the background may have been started with them ignored, which all it starts would inherit: shells in
        # containers could not be interrupted.
        if signal.getsignal(ignored) is signal.SIG_IGN:
            signal.signal(ignored, signal.default_int_handler if ignored is signal.SIGINT else signal.SIG_DFL)
    forks.allow()
    config.stash[_PRODUCTS] = []
    config.stash[_CLOUD_PRODUCTS] = []


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in its own
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests in the folders that need an engine or servers say so; those that share one stay on one worker."""
    for item in items:
        folders = set(item.path.relative_to(item.config.rootpath).parts)
        if ENGINE_FOLDERS & folders:
            item.add_marker(pytest.mark.engine)
        if "cloud" in folders or "testbed" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.cloud)
        if "services" in folders:
            one = "rabbitmq" if "rabbit" in getattr(item, "fixturenames", ()) else "services"
            item.add_marker(pytest.mark.services)
            item.add_marker(pytest.mark.xdist_group(one))  # one server of a kind serves all of its tests
        if "shared_product" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Groups hold: pytest 9.2 no longer hears of them from pytest-xdist 3.8, and says nothing."""
    if getattr(session.config.option, "loadgroup", False):
        for item in session.items:
            if item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
                raise pytest.UsageError(f"{item.nodeid} would not stay with its xdist_group: see constraints.txt")


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before pytest-timeout begins to count
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """A test that takes a service of the testbed away waits until no other test uses it, and they for its end."""
    if item.get_closest_marker("cloud") is None:
        return (yield)
    with turn(alone=item.get_closest_marker("testbed_alone") is not None):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failing test shows the end of its products' logs."""
    report = yield
    if report.failed:
        for product in item.config.stash[_PRODUCTS]:
            report.sections.append((f"log of {product.url} (last lines)", "\n".join(product.log().splitlines()[-60:])))
        for cloud_product in item.config.stash[_CLOUD_PRODUCTS]:
            report.sections.append((f"logs of {cloud_product.name} (last lines)", cloud_product.tail(60)))
    return report


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The real container engine. A machine without one fails the test: nothing is skipped silently."""
    found = Engine()
    if not found.ping():
        found.close()
        pytest.fail(f"No Docker engine answers at {SOCKET}; `make test` installs and starts one.")
    yield found
    found.close()


@pytest.fixture(scope="session")
def busybox(engine: Engine) -> str:
    """Name of an image that is in the engine; use it with ``image_pull_policy: ifnotpresent``."""
    return engine.load_busybox()


@pytest.fixture(scope="session")
def containerd() -> Iterator[Containerd]:
    """A containerd of our own. A machine without one fails the test: nothing is skipped silently."""
    if shutil.which("containerd") is None:
        pytest.fail("containerd is not installed; `make test` installs it.")
    found = Containerd(handlers=["runsc"])
    try:
        yield found.start()
    finally:
        found.close()


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


@pytest.fixture(scope="session")
def testbed() -> Iterator[Testbed]:
    """The cloud's services. Where they are not up the test fails: nothing is skipped silently."""
    try:
        found = Testbed()
    except AssertionError as error:
        pytest.fail(str(error), pytrace=False)
    yield found
    found.close()


@pytest.fixture
def new_project(testbed: Testbed, engine: Engine) -> Iterator[Callable[..., Project]]:
    """Makes projects in the cloud, each with a user (``member``, ``reader`` unless other roles are given)."""
    made: list[Project] = []

    def make(*roles: str) -> Project:
        project = Project(testbed, *roles)
        made.append(project)
        return project

    yield make
    for project in made:
        project.remove(engine)


@pytest.fixture
def project(new_project: Callable[..., Project]) -> Project:
    """A project with a user and a network of its own."""
    return new_project().use_network()


@pytest.fixture
def make_cloud_product(
    request: pytest.FixtureRequest, tmp_path: Path, testbed: Testbed, engine: Engine
) -> Iterator[Callable[..., CloudProduct]]:
    """Makes products beside the cloud (not started): ``make_cloud_product(nodes=2, apis=2)``."""
    made: list[CloudProduct] = []
    running = request.config.stash[_CLOUD_PRODUCTS]

    def make(*, nodes: int = 1, apis: int = 1) -> CloudProduct:
        product = CloudProduct(tmp_path / f"cloud{len(made)}", testbed, engine, nodes=nodes, apis=apis)
        made.append(product)
        running.append(product)
        return product

    yield make
    for product in made:
        running.remove(product)
        product.close()


@pytest.fixture
def cloud_product(
    make_cloud_product: Callable[..., CloudProduct], new_project: Callable[..., Project]
) -> Iterator[CloudProduct]:
    """A running product for one test; emptied afterwards, before the projects and their networks go."""
    product = make_cloud_product().start()
    yield product
    if not all(service.running for service in product.services):
        product.start()
    product.clear()


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
        except Exception as error:  # the others are stopped all the same
            remains.append(f"{product.url}: {error}")
        remains += product.remains()
        config.stash[_PRODUCTS].remove(product)
    assert not remains, f"left on the machine: {remains}"
