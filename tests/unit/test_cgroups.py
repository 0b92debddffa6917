"""Where engines put a container's processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from zun.runtime import cgroups

IDENT = "ab" * 32


@pytest.mark.parametrize("name", [IDENT, f"docker-{IDENT}.scope"])
def test_a_groups_name_tells_its_container(name: str) -> None:
    assert cgroups.engine_id(name) == IDENT


@pytest.mark.parametrize("name", ["", "user.slice", "docker-abc.scope"])
def test_other_groups_are_nobodys(name: str) -> None:
    assert cgroups.engine_id(name) is None


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("place", ["docker/{}", "system.slice/docker-{}.scope"])
def test_processes_are_found_in_every_layout(tmp_path: Path, version: int, place: str) -> None:
    base = tmp_path
    if version == 2:
        (tmp_path / "cgroup.controllers").touch()
    else:
        base = tmp_path / "pids"
    group = base / place.format(IDENT)
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text("12\n34\n")
    assert cgroups.processes(IDENT, cgroups.folders(tmp_path)) == [12, 34]
    assert cgroups.processes("cd" * 32, cgroups.folders(tmp_path)) == []
