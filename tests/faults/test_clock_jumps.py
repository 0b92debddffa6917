"""The machine's clock is moved by an hour while containers run and something is at work: nothing changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.faketime import MovedClock
from tests.support.product import ZUN, Product
from tests.support.wait import wait_until

HOUR = 3600
DEAF = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]


class Watch:
    """Looks at the host and at a container all the time; ``wrong`` is what was told of them otherwise."""

    def __init__(self, product: Product, path: str) -> None:
        self._http = product.http()
        self._path = path
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.wrong: list[Any] = []
        self.beats = 0

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(60)

    def _look(self) -> None:
        while not self._over.wait(0.2):
            try:
                (service,) = self._http.get("/v1/services").json()["services"]
                status = self._http.get(self._path).json()["status"]
            except (httpx.TransportError, KeyError, ValueError) as error:
                self.wrong.append(error)
                return
            self.beats = service["report_count"]
            if (service["state"], status) != ("up", "Running"):
                self.wrong.append((service["state"], status))


@pytest.mark.parametrize("moved", [HOUR, -HOUR])
def test_nothing_changes_when_the_clock_is_moved_by_an_hour(
    make_product: Callable[[], Product], busybox: str, tmp_path: Path, moved: int
) -> None:
    clock = MovedClock(tmp_path)
    product = make_product()
    product.program = [*clock.before, str(ZUN)]
    product.conf(
        DEFAULT={"periodic_interval_max": "2", "sync_container_state_interval": "1"},
        compute={"reaper_interval": "1", "orphan_grace_seconds": "1"},
    ).start()
    http = product.http()

    def run(name: str, command: list[str]) -> str:
        body = {"name": name, "image": busybox, "image_pull_policy": "ifnotpresent", "command": command}
        made = http.post("/v1/containers", params={"run": "true"}, json=body)
        assert made.status_code == 202, made.text
        path = f"/v1/containers/{made.json()['uuid']}"
        product.wait_status(path, "Running")
        return path

    stays, stops = run("stays", DEAF), run("stops", DEAF)
    engines = {row["Id"] for row in product.engine_containers()}
    with Watch(product, stays) as watch:
        assert http.post(f"{stops}/stop", params={"timeout": "6"}).status_code == 202
        wait_until(lambda: http.get(stops).json()["task_state"] == "container_stopping", 30, "it is being stopped")
        clock.move(moved)
        product.wait_status(stops, "Stopped")
        before = watch.beats
        wait_until(lambda: watch.beats >= before + 3 or watch.wrong, 60, "the host reports on")
        later = run("later", DEAF)
    assert watch.wrong == []
    wait_until(lambda: "the machine's clock was moved" in product.log(), 60, "it is told")
    assert [row["action"] for row in actions(http, stops)] == ["stop", "create"]
    assert [row["action"] for row in actions(http, stays)] == ["create"]
    made_at = datetime.fromisoformat(http.get(later).json()["created_at"])
    assert abs(datetime.now(UTC).replace(tzinfo=None) - made_at.replace(tzinfo=None)) < timedelta(minutes=5)
    assert len(product.engine_containers()) == 3
    assert engines < {row["Id"] for row in product.engine_containers()}
    product.clear()


def actions(http: httpx.Client, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http.get(f"{path}/container_actions").json()["containerActions"]
    return found
