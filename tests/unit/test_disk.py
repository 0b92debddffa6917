"""How full a node's disks are: each root is asked once a look, and what cannot be read counts for nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from zun.compute import disk

MIB = 1024**2


def node(asked: list[str], least: int = 100, **disks: tuple[int, int]) -> Any:
    """``disks``: root -> MiB used and free."""

    def usage(root: str) -> Any:
        asked.append(root)
        if root not in disks:
            raise FileNotFoundError(root)
        used, free = disks[root]
        return SimpleNamespace(used=used * MIB, free=free * MIB)

    conf = SimpleNamespace(compute=SimpleNamespace(disk_free_min_mib=least))
    roots = ("docker", "containerd", "docker", "")
    return SimpleNamespace(conf=conf, disk_usage=usage, engine_roots=roots, disk_full=False)


async def test_each_is_asked_once_a_look() -> None:
    asked: list[str] = []
    assert not await disk.is_full(node(asked, docker=(100, 300), containerd=(300, 100)))
    assert asked == ["docker", "containerd"]
    assert disk._RATIO._value.get() == 0.75


async def test_one_without_room_is_enough_and_one_that_is_elsewhere_is_none() -> None:
    assert await disk.is_full(node([], docker=(1, 99)))
    assert not await disk.is_full(node([]))
    assert await disk.percent(node([], docker=(1, 3)), ["docker", "gone"]) == 25
