"""The disk fills up under the running product: 503 with a sentence, reads go on, and with room again all works."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.live import Live
from tests.support.wait import wait_until

BODY = {"image": "busybox", "cpu": 0.1, "memory": 4, "labels": {"much": "x" * 60_000}}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    where = tmp_path / "small"
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "zun-test", str(where)], check=True)
    try:
        yield where
    finally:
        subprocess.run(["umount", str(where)], check=True)


def _fill(file: Path) -> None:
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as out:
        while True:
            out.write(b"x" * 4096)


def test_a_disk_that_fills_up_and_is_cleared(small_disk: Path) -> None:
    zun = Live(small_disk / "zun").start()
    try:
        with zun.http(zun.admin) as client:
            _fill(small_disk / "filler")

            def refused() -> bool:
                answer = client.post("/v1/containers", json=BODY)
                if answer.status_code == 202:  # room inside the files there are
                    return False
                error = answer.json()["errors"][0]
                assert (answer.status_code, error["code"]) == (503, "container.")
                assert error["title"] == "The database does not answer now. Try again later."
                assert "Error Correlation id is: " in error["detail"]
                return True

            wait_until(refused, 30, "a create is refused")
            assert client.get("/v1/containers").status_code == 200
            (small_disk / "filler").unlink()
            made = client.post("/v1/containers?run=true", json=BODY)
            assert made.status_code == 202, made.text
            path = f"/v1/containers/{made.json()['uuid']}"
            wait_until(lambda: client.get(path).json()["status"] == "Running", 30, "a new container runs")
        assert not zun.ended
        assert "Traceback" not in zun.log()
    finally:
        zun.stop()
