"""CPUs of its own: CPU lists, NUMA nodes, and that no two containers get the same one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.database import make_database
from zun.compute.topology import pinnable
from zun.domain.clock import SystemClock
from zun.domain.numa import Pinned, choose, cpus_needed, parse_cpu_list
from zun.store import compute_nodes, pinned_cpus
from zun.store.database import Database

TWO_NODES = {"0": [0, 1, 2, 3], "1": [4, 5]}


@pytest.mark.parametrize(
    ("text", "cpus"), [("", set()), ("3", {3}), ("1-4,6", {1, 2, 3, 4, 6}), (" 0 , 2-2 ", {0, 2}), ("2,2", {2})]
)
def test_cpu_lists_are_read(text: str, cpus: set[int]) -> None:
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "1,,2", "0-99999999", "1-2-3", "^1"])
def test_what_is_no_cpu_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_cpu_list(text)


@pytest.mark.parametrize(("cores", "count"), [(0.0, 1), (0.1, 1), (1.0, 1), (1.1, 2), (2.0000000001, 2), (4, 4)])
def test_cores_are_whole_cpus(cores: float, count: int) -> None:
    assert cpus_needed(cores) == count


def test_the_fullest_numa_node_with_room_is_chosen() -> None:
    assert choose(TWO_NODES, (), 1) == Pinned(1, (4,))
    assert choose(TWO_NODES, (), 3) == Pinned(0, (0, 1, 2))
    assert choose(TWO_NODES, (4, 5), 2) == Pinned(0, (0, 1))
    assert choose(TWO_NODES, (0, 4), 3) == Pinned(0, (1, 2, 3))
    assert choose(TWO_NODES, (0, 1, 4), 3) is None  # three are free, and not in one NUMA node
    assert choose({}, (), 1) is None


def conf(*, pinning: bool = True, floating: str = "") -> Any:
    return SimpleNamespace(compute=SimpleNamespace(enable_cpu_pinning=pinning), floating_cpu_set=floating)


def test_what_a_node_pins_is_read_without_the_floating_cpus(tmp_path: Path) -> None:
    for number, cpus in ((0, "0-3"), (1, "4-7"), (2, "")):
        (tmp_path / f"node{number}").mkdir()
        (tmp_path / f"node{number}" / "cpulist").write_text(f"{cpus}\n")
    assert pinnable(conf(), 8, tmp_path) == {"0": [0, 1, 2, 3], "1": [4, 5, 6, 7]}
    assert pinnable(conf(floating="0-3,4"), 8, tmp_path) == {"1": [5, 6, 7]}
    assert pinnable(conf(floating="0-7"), 8, tmp_path) == {}
    assert pinnable(conf(), 2, tmp_path) == {"0": [0, 1]}  # an engine elsewhere
    assert pinnable(conf(), 2, tmp_path / "nothing") == {"0": [0, 1]}
    assert pinnable(conf(pinning=False), 8, tmp_path) == {}


async def make_host(db: Database, host: str, topology: dict[str, list[int]] | None) -> None:
    node = {"hostname": host, "numa_topology": topology, "enable_cpu_pinning": bool(topology)}
    node |= dict.fromkeys(("mem_total", "mem_used", "cpus", "disk_total", "disk_used", "total_containers"), 0)
    async with db.write() as connection:
        values = node | {"cpu_used": 0.0, "disk_quota_supported": False}
        await compute_nodes.upsert(connection, values, SystemClock().now())


async def test_no_cpu_is_pinned_twice_whoever_asks_at_once(tmp_path: Path) -> None:
    db = await make_database(tmp_path)
    other = Database(f"sqlite:///{tmp_path}/zun.sqlite")
    try:
        await make_host(db, "h", TWO_NODES)
        asked = (pinned_cpus.pin((db, other)[n % 2], "h", f"c{n}", 1 + n % 2) for n in range(20))
        got = [one for one in await asyncio.gather(*asked) if one is not None]
        cpus = [cpu for one in got for cpu in one.cpus]
        assert len(cpus) == len(set(cpus))
        assert len(cpus) >= 5  # at most one is left over that fits nobody
        async with db.read() as connection:
            assert await pinned_cpus.of_hosts(connection, ["h"]) == {"h": set(cpus)}
    finally:
        await other.close()
        await db.close()


async def test_pins_stay_move_and_are_given_back(tmp_path: Path) -> None:
    db = await make_database(tmp_path)
    try:
        await make_host(db, "h", TWO_NODES)
        await make_host(db, "i", {"0": [0]})
        await make_host(db, "off", None)
        first = await pinned_cpus.pin(db, "h", "c", 2)
        assert first == Pinned(1, (4, 5))
        assert first.cpuset == "4,5"
        assert await pinned_cpus.pin(db, "h", "c", 2) == first
        assert await pinned_cpus.pin(db, "i", "c", 1) == Pinned(0, (0,))
        assert await pinned_cpus.pin(db, "i", "d", 1) is None
        assert await pinned_cpus.pin(db, "off", "d", 1) is None
        async with db.write() as connection:
            assert await pinned_cpus.containers_of(connection, "h") == set()
            await pinned_cpus.unpin(connection, "c")
            await pinned_cpus.unpin(connection, "c")
            assert await pinned_cpus.containers_of(connection, "i") == set()
    finally:
        await db.close()
