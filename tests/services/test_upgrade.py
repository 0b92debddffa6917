"""docs/howto/upgrade.md, on real Docker: this version and the one before it at work beside each other, both ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.agents import up
from tests.support.cloud import Cloud
from tests.support.db_servers import Server
from tests.support.processes import healthy
from tests.support.product import Product
from tests.support.versions import Service, Version, current, earlier
from tests.support.wait import wait_until
from zun.store import migrate


class Machine:
    """API and agent as processes, each of one version at a time."""

    def __init__(self, product: Product, image: str) -> None:
        self.product = product
        self.cloud = Cloud(product, image)
        self.api, self.agent = Service("zun-api", product), Service("zun-compute", product)

    def start_api(self, version: Version) -> None:
        self.api.start(version)
        wait_until(lambda: healthy(self.product), 120, "zun-api answers")

    def start_agent(self, version: Version) -> None:
        before = self._reports()
        self.agent.start(version)
        wait_until(lambda: up(self.cloud.http) and self._reports() > before, 120, "the agent reports")

    def _reports(self) -> int:
        return sum(row["report_count"] for row in self.cloud.http.get("/v1/services").json()["services"])

    def change_api(self, version: Version) -> None:
        self.api.end()
        self.start_api(version)

    def kill(self) -> None:
        self.agent.kill()
        self.api.kill()

    def create(self) -> str:
        return str(self.cloud.create(image_pull_policy="ifnotpresent", auto_heal=True)["uuid"])

    def life(self) -> None:
        """Create, execute, stop, start, delete: all of it works, and nothing is left."""
        cloud = self.cloud
        uuid = cloud.begun(cloud.wait(self.create(), "Running")["uuid"])
        said = cloud.post(f"/containers/{uuid}/execute", 200, params={"command": "echo hello"}).json()
        assert said["output"] == "hello\n"
        cloud.act(uuid, "stop")
        cloud.wait(uuid, "Stopped")
        cloud.act(uuid, "start")
        cloud.wait(uuid, "Running")
        assert [one["action"] for one in cloud.actions(uuid)] == ["start", "stop", "create"]
        cloud.delete(uuid, force="true")
        cloud.wait_gone(uuid)
        wait_until(lambda: cloud.engine(uuid) is None, 60, "the engine has nothing of it")


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Version:
    return earlier(tmp_path_factory.mktemp("earlier"))


@pytest.fixture
def machine(
    make_product: Callable[[], Product], servers: Callable[[str], Server], busybox: str, tmp_path: Path, before: Version
) -> Iterator[Machine]:
    """As the version before left it: its tables, its token, its processes."""
    product = make_product()
    product.conf(
        DEFAULT={"transport_url": f"unix://{tmp_path}/bus", "periodic_interval_max": 1},
        compute={"sweep_interval": 1},
        database={"connection": servers("mariadb").create_database(f"upgrade{product.port}")},
    )
    product.program = before.command("zun")
    product.start(before.env).terminate()
    made = Machine(product, busybox)
    try:
        made.start_api(before)
        made.start_agent(before)
        yield made
    finally:
        made.kill()


@pytest.mark.engine
@pytest.mark.timeout(900)
def test_versions_one_apart_work_together(machine: Machine, before: Version) -> None:
    now, cloud, product = current(), machine.cloud, machine.product
    runs, rests = machine.create(), machine.create()
    cloud.begun(cloud.wait(runs, "Running")["uuid"])
    cloud.begun(cloud.wait(rests, "Running")["uuid"])
    cloud.act(rests, "stop")
    cloud.wait(rests, "Stopped")
    engine = {uuid: (cloud.engine(uuid) or {})["Id"] for uuid in (runs, rests)}

    said = now.run("zun-db-manage", "--config-file", str(product.state.conf_file), "upgrade")
    assert said == f"Current DB revision is {migrate.HEAD}\n"
    machine.life()  # the version before on the new tables
    machine.change_api(now)
    machine.life()
    _carries_on(machine, now)
    _same(cloud, engine, runs, rests)
    machine.change_api(before)
    machine.life()
    _carries_on(machine, before)
    _same(cloud, engine, runs, rests)
    product.clear()


def _same(cloud: Cloud, engine: dict[str, str], runs: str, rests: str) -> None:
    """What was made at first is as it was, in the records and in the engine."""
    assert cloud.wait(runs, "Running")["status_reason"] is None
    assert cloud.wait(rests, "Stopped")["status_reason"] is None
    assert {uuid: (cloud.engine(uuid) or {})["Id"] for uuid in engine} == engine


def _carries_on(machine: Machine, version: Version) -> None:
    """The agent of that version does what the other's had begun when it died, and what was written down meanwhile."""
    cloud = machine.cloud
    stops, goes = (cloud.begun(cloud.wait(machine.create(), "Running")["uuid"]) for _ in range(2))
    half = machine.create()
    machine.agent.kill()  # wherever it is with that
    cloud.act(stops, "stop")
    cloud.delete(goes, stop="true")
    late = machine.create()
    machine.start_agent(version)
    cloud.wait(stops, "Stopped")
    cloud.wait_gone(goes)
    for uuid in (half, late):
        cloud.wait(uuid, "Running")
    for uuid in (stops, half, late):
        cloud.delete(uuid, force="true")
        cloud.wait_gone(uuid)
