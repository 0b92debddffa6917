"""Numbers that CRI does not tell, from the kernel's files."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from zun.runtime.cri import stats


def usage(timestamp: int, used: int) -> Any:
    return SimpleNamespace(timestamp=timestamp, usage_core_nano_seconds=SimpleNamespace(value=used))


def test_percent_of_a_core() -> None:
    assert stats.cpu_percent(usage(1_000, 500), usage(2_000, 1_000)) == 50.0
    assert stats.cpu_percent(usage(1_000, 0), usage(2_000, 2_500)) == 250.0
    assert stats.cpu_percent(usage(1_000, 500), usage(1_000, 900)) == 0.0
    assert stats.cpu_percent(usage(1_000, 500), usage(2_000, 100)) == 0.0  # restarted


def test_network_of_a_process_is_counted_without_loopback() -> None:
    received, sent = stats.network(os.getpid())
    assert received >= 0
    assert sent >= 0
    assert stats.network(0) == (0, 0)


def test_blocks_of_both_kinds_of_groups(tmp_path: Path) -> None:
    lines = Path(f"/proc/{os.getpid()}/cgroup").read_text().splitlines()
    v1 = [line.split(":", 2)[2] for line in lines if "blkio" in line.split(":")[1].split(",")]
    v2 = [line.split(":", 2)[2] for line in lines if line.startswith("0::")]
    if v1:
        folder = tmp_path / "blkio" / v1[0].strip("/")
        folder.mkdir(parents=True)
        (folder / "blkio.throttle.io_service_bytes_recursive").write_text(
            "8:0 Read 10\n8:0 Write 4\n9:0 Read 5\nTotal 19\n"
        )
        assert stats.blocks(os.getpid(), tmp_path) == (15, 4)
    elif v2:
        folder = tmp_path / v2[0].strip("/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "io.stat").write_text("8:0 rbytes=10 wbytes=4 rios=1\n9:0 rbytes=5\n")
        assert stats.blocks(os.getpid(), tmp_path) == (15, 4)
    assert stats.blocks(0) == (0, 0)
    assert stats._sum_v2(["8:0 rbytes=10 wbytes=4", "9:0 rbytes=5"]) == (15, 4)
