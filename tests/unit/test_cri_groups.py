"""Control groups of capsules, in cgroup v1 and v2, on folders that look like them."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from zun.runtime.cri.groups import Groups, Slices

CAPSULE, MEMBER = "5b1f9f6e-50b6-4ad0-9d1c-5f3b5b0d2c02", "0d8c0f04-2cf5-4e3b-9ef4-0e2c3e1b6a01"
MIB = 1024 * 1024


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    for name in ("cpu", "memory", "pids"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    for folder in ("", "zun", f"zun/{CAPSULE}"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "cgroup.controllers").write_text("cpu memory pids")
    return tmp_path


def text(path: Path) -> str:
    return path.read_text().strip()


def test_v1_limits_of_a_capsule(v1: Path) -> None:
    groups = Groups("/zun", v1)
    groups.ensure(CAPSULE, cpu_millicores=1500, memory_mib=64)
    assert text(v1 / f"cpu/zun/{CAPSULE}/cpu.cfs_quota_us") == "150000"
    assert text(v1 / f"cpu/zun/{CAPSULE}/cpu.shares") == "1536"
    assert text(v1 / f"memory/zun/{CAPSULE}/memory.limit_in_bytes") == str(64 * MIB)
    assert groups.memory(CAPSULE) == 64 * MIB
    assert groups.of(CAPSULE) == f"/zun/{CAPSULE}"


def test_v1_without_limits(v1: Path) -> None:
    groups = Groups("/zun", v1)
    groups.ensure(CAPSULE, cpu_millicores=0, memory_mib=0)
    assert text(v1 / f"cpu/zun/{CAPSULE}/cpu.cfs_quota_us") == "-1"
    assert text(v1 / f"memory/zun/{CAPSULE}/memory.limit_in_bytes") == "-1"
    assert groups.memory(CAPSULE) is None


def test_v2_limits_of_a_capsule_and_the_controllers_passed_on(v2: Path) -> None:
    groups = Groups("zun/", v2)
    groups.ensure(CAPSULE, cpu_millicores=250, memory_mib=64)
    assert text(v2 / f"zun/{CAPSULE}/cpu.max") == "25000 100000"
    assert text(v2 / f"zun/{CAPSULE}/memory.max") == str(64 * MIB)
    assert text(v2 / "cgroup.subtree_control") == "+cpu +memory +pids"
    assert text(v2 / "zun/cgroup.subtree_control") == "+cpu +memory +pids"
    groups.ensure(CAPSULE, cpu_millicores=0, memory_mib=0)
    assert text(v2 / f"zun/{CAPSULE}/cpu.max") == "max 100000"
    assert groups.memory(CAPSULE) is None


@pytest.mark.parametrize("shares", [(1, 1), (1000, 39), (256_000, 10000)])
def test_v2_weight_is_that_of_the_shares(v2: Path, shares: tuple[int, int]) -> None:
    millicores, weight = shares
    Groups("/zun", v2).ensure(CAPSULE, cpu_millicores=millicores, memory_mib=0)
    assert text(v2 / f"zun/{CAPSULE}/cpu.weight") == str(weight)


def test_member_has_a_group_of_its_own_for_a_limit_of_pids(v1: Path) -> None:
    groups = Groups("/zun", v1)
    assert groups.ensure_member(CAPSULE, MEMBER, 0) == f"/zun/{CAPSULE}"
    assert groups.ensure_member(CAPSULE, MEMBER, 77) == f"/zun/{CAPSULE}/{MEMBER}"
    assert text(v1 / f"pids/zun/{CAPSULE}/{MEMBER}/pids.max") == "77"


def test_capsule_is_made_wider_and_never_narrower(v1: Path) -> None:
    groups = Groups("/zun", v1)
    groups.ensure(CAPSULE, cpu_millicores=500, memory_mib=64)
    groups.widen(CAPSULE, cpu_millicores=400, memory_mib=32)
    assert (text(v1 / f"cpu/zun/{CAPSULE}/cpu.cfs_quota_us"), groups.memory(CAPSULE)) == ("50000", 64 * MIB)
    groups.widen(CAPSULE, cpu_millicores=700, memory_mib=None)
    assert (text(v1 / f"cpu/zun/{CAPSULE}/cpu.cfs_quota_us"), groups.memory(CAPSULE)) == ("70000", 64 * MIB)
    groups.widen(CAPSULE, cpu_millicores=None, memory_mib=0)
    assert text(v1 / f"memory/zun/{CAPSULE}/memory.limit_in_bytes") == "-1"


def test_capsule_without_limits_gets_none_by_growing(v1: Path) -> None:
    groups = Groups("/zun", v1)
    groups.ensure(CAPSULE, cpu_millicores=0, memory_mib=0)
    groups.widen(CAPSULE, cpu_millicores=700, memory_mib=64)
    assert text(v1 / f"cpu/zun/{CAPSULE}/cpu.cfs_quota_us") == "-1"
    assert groups.memory(CAPSULE) is None


def test_removal_tells_what_still_has_processes(v1: Path) -> None:
    groups = Groups("/zun", v1)
    folder = v1 / f"memory/zun/{CAPSULE}"
    (folder / MEMBER / "deep").mkdir(parents=True)
    (v1 / f"pids/zun/{CAPSULE}").mkdir(parents=True)
    (folder / "task").write_text("")  # an ordinary folder that is not empty is as busy as a group with processes
    assert groups.remove(CAPSULE)
    assert not (folder / MEMBER).exists()
    (folder / "task").unlink()
    assert not groups.remove(CAPSULE)
    assert not folder.exists()
    assert (v1 / "memory/zun").exists()
    assert not groups.remove(CAPSULE)


def test_host_without_control_groups_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no control groups of cpu"):
        Groups("/zun", tmp_path / "none").ensure(CAPSULE, cpu_millicores=1, memory_mib=1)


def test_without_a_parent_nothing_is_made(v1: Path) -> None:
    groups = Groups("", v1)
    groups.ensure(CAPSULE, cpu_millicores=500, memory_mib=64)
    groups.widen(CAPSULE, cpu_millicores=500, memory_mib=64)
    assert groups.of(CAPSULE) == ""
    assert groups.ensure_member(CAPSULE, MEMBER, 10) == ""
    assert not groups.remove(CAPSULE)
    assert [list((v1 / name).iterdir()) for name in ("cpu", "memory", "pids")] == [[], [], []]


def test_systemd_has_a_slice_for_each_capsule(v1: Path) -> None:
    slices = Slices("/zun/capsules", v1)
    slices.ensure(CAPSULE, cpu_millicores=500, memory_mib=64)
    assert slices.of(CAPSULE) == f"zun-capsules-{CAPSULE.replace('-', '')}.slice"
    assert slices.ensure_member(CAPSULE, MEMBER, 10) == slices.of(CAPSULE)
    assert list((v1 / "cpu").iterdir()) == []


def test_what_still_runs_is_killed(v1: Path) -> None:
    groups = Groups("/zun", v1)
    folder = v1 / f"pids/zun/{CAPSULE}/{MEMBER}"
    folder.mkdir(parents=True)
    process = subprocess.Popen(["sleep", "1000"])
    (folder / "cgroup.procs").write_text(f"0\n{process.pid}\n")
    groups.kill(CAPSULE)
    assert process.wait(60) == -signal.SIGKILL
