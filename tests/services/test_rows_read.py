"""Rows that MariaDB reads, by its own count: for a create, an address, and a minute of a node, as many however many
others there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import pytest

from tests.services.rows import container
from tests.support.api import make_api
from tests.support.db_servers import Server
from tests.support.many_hosts import name_of, report
from tests.support.simulated_node import simulated_cloud
from zun.compute.capsules.watch import CapsuleWatch
from zun.compute.fence import Fence
from zun.compute.image_care import ImageCare
from zun.compute.inventory import Inventory
from zun.compute.sync import Sync
from zun.compute.worker import Worker
from zun.domain.caller import Caller
from zun.store import containers, migrate
from zun.store.clock import DatabaseClock
from zun.store.tables import local_ports

FEW, MANY = 10, 200
CREATES = 10
_READS = ("first", "key", "last", "next", "prev", "rnd", "rnd_next")


async def rows_read(server: Server, work: Callable[[], Awaitable[object]]) -> int:
    """By all that the server did meanwhile, less what asking costs."""

    def counted() -> int:
        names = ", ".join(f"'Handler_read_{name}'" for name in _READS)
        return sum(int(value) for _, value in server.sql(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({names})"))

    counted()
    before, asking = counted(), counted()
    await work()
    return counted() - asking - (asking - before)


@pytest.fixture
def mariadb(servers: Callable[[str], Server]) -> Server:
    return servers("mariadb")


@pytest.fixture
def url(new_url: Callable[[str], str]) -> str:
    """Of a database at head."""
    found = new_url("mariadb")
    migrate.upgrade(found)
    return found


async def test_rows_read_for_a_create_do_not_grow_with_the_hosts(tmp_path: Path, mariadb: Server, url: str) -> None:
    options = {"database.connection": url, "scheduler.sample_size": 8, "quota.containers": -1, "quota.cpu": -1}
    async with make_api(tmp_path, options) as api:
        client = api.client(("admin",))

        async def create() -> None:
            answer = await client.post("/v1/containers", json={"image": "busybox", "cpu": 0.1, "memory": 16})
            assert (answer.status_code, answer.json()["status"]) == (202, "Creating")

        async def creates() -> None:
            for _ in range(CREATES):
                await create()

        await report(api.parts.db, api.control.clock.now(), range(FEW))
        await create()  # what is read once: the project's network, its first usage
        few = await rows_read(mariadb, creates)
        await report(api.parts.db, api.control.clock.now(), range(FEW, MANY))
        many = await rows_read(mariadb, creates)
    each = (few / CREATES, many / CREATES)
    # A sample of ten hosts reads a few less: it comes upon their end. A look at all reads each more than once.
    assert each[1] - each[0] < (MANY - FEW) / 10, each


async def test_rows_read_for_an_address_do_not_grow_with_the_network(tmp_path: Path, mariadb: Server, url: str) -> None:
    async with make_api(tmp_path, {"database.connection": url}) as api:
        network = api.parts.network
        asked = await network.resolve(Caller(user_id="ada", project_id="blue"), [])

        async def give() -> None:
            for number in range(CREATES):
                assert await network.ensure_ports(container(f"c{number}"), asked)

        async def fill(numbers: range) -> None:
            rows = [
                {"uuid": str(uuid4()), "network_uuid": asked[0].network_id, "device_id": str(uuid4()), "position": 0}
                | {"number": number, "address": str(number), "mac": str(number)}
                for number in numbers
            ]
            async with api.parts.db.write() as connection:
                await connection.execute(local_ports.insert(), rows)

        await fill(range(2, 150))
        few = await rows_read(mariadb, give)
        await fill(range(150 + CREATES, 3000))
        many = await rows_read(mariadb, give)
    assert many <= few * 1.1, (few, many)


async def test_rows_read_in_a_nodes_minute_do_not_grow_with_the_others(
    tmp_path: Path, mariadb: Server, url: str
) -> None:
    async with simulated_cloud(tmp_path, database__connection=url, quota__containers=-1, quota__cpu=-1) as cloud:
        uuids = [await cloud.create() for _ in range(5)]
        for uuid in uuids:
            await cloud.wait(uuid, "Running")
        await cloud.die()
        node = cloud.node
        assert node is not None
        inventory, worker = Inventory(node), Worker(node)
        await inventory.register()

        async def minute() -> None:
            """Each round that an agent goes through again and again."""
            await inventory.refresh()
            await inventory._write_usage()
            await Sync(node, lambda: worker.busy).once()
            await worker._sweep()
            await CapsuleWatch(node, lambda: worker.busy)._comparison.once()
            await ImageCare(node).round()
            assert await Fence(node, lambda: None)._report()
            await DatabaseClock(node.db).look()

        async def others(first: int, count: int) -> None:
            await report(node.db, node.clock.now(), range(first, first + count))
            async with node.db.write() as connection:
                for number in range(first, first + count):
                    rows = [container(f"c{number}", host=name_of(number), container_id="1") for _ in range(5)]
                    await containers.insert(connection, *rows)

        await others(0, FEW)
        await minute()
        few = await rows_read(mariadb, minute)
        await others(FEW, MANY - FEW)
        many = await rows_read(mariadb, minute)
    assert many <= few * 1.1, (few, many)
