"""One container about which the engine never answers, beside fifty healthy ones: only its own verbs wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.cloud import Cloud
from tests.support.engine_proxy import ProxyThread
from tests.support.ports import free_port
from tests.support.processes import agent_up, healthy, running
from tests.support.product import Product
from tests.support.wait import wait_until

HEALTHY = 50
ANSWER_WITHIN = 35
"""Seconds that one call of the engine may take: longer than anything else here."""
SOON = 25.0
"""Seconds in which the others are told: they wait for no call about the hung one."""


class Rig:
    """API and agent as processes, with a proxy before the engine; ``stuck`` is the one it hangs for."""

    def __init__(self, product: Product, proxy: ProxyThread, image: str, port: int) -> None:
        self.product, self.proxy, self.port = product, proxy, port
        self.cloud = Cloud(product, image)
        self.cloud.http.timeout = httpx.Timeout(120)
        with ThreadPoolExecutor(4) as several:
            made = list(several.map(lambda _: self._create(), range(HEALTHY + 1)))
        self.stuck, *self.others = made
        wait_until(lambda: self.statuses("Running") == set(made), 240, "all run")
        engine = self.cloud.engine(self.stuck)
        assert engine is not None
        self.hung = f".* .*/containers/(zun-{self.stuck}|{engine['Id']})"
        proxy.hang(self.hung)

    def _create(self) -> str:
        return str(self.cloud.create(cpu=0.1, memory=8, image_pull_policy="ifnotpresent")["uuid"])

    def statuses(self, wanted: str) -> set[str]:
        """Who is so, with no task at work."""
        rows = self.cloud.get("/containers")["containers"]
        return {row["uuid"] for row in rows if row["status"] == wanted and row["task_state"] is None}

    def die(self, uuids: list[str]) -> None:
        """Behind the product's back."""
        for uuid in uuids:
            self.product.engine.post(f"/containers/zun-{uuid}/kill")

    def agent_is_well(self) -> bool:
        return httpx.get(f"http://127.0.0.1:{self.port}/healthcheck", timeout=30).status_code == 200


@pytest.fixture
def rig(make_product: Callable[[], Product], busybox: str, tmp_path: Path) -> Iterator[Rig]:
    proxy = ProxyThread(tmp_path / "docker.sock")
    product, port = make_product(), free_port()
    product.conf(
        DEFAULT={"transport_url": f"unix://{tmp_path}/bus", "sync_container_state_interval": "2"},
        docker={"api_url": f"unix://{proxy.path}", "default_timeout": ANSWER_WITHIN},
        compute={"retry_attempts": "1", "operation_deadline": "20", "reaper_interval": "1"},
        quota={"containers": "100", "cpu": "100"},
        metrics={"compute_port": port},
    )
    try:
        product.start().terminate()  # makes tables and token
        with running("zun-api", product):
            wait_until(lambda: healthy(product), 90, "zun-api answers")
            with running("zun-compute", product):
                wait_until(lambda: agent_up(product.http()), 90, "zun-compute is up")
                yield Rig(product, proxy, busybox, port)
                proxy.mode("pass")
                proxy.cut(".*")
            with running("zun-compute", product):
                product.clear()
    finally:
        proxy.stop()


@pytest.mark.timeout(600)
def test_one_that_is_never_answered_about_holds_up_no_other(rig: Rig) -> None:
    cloud, third = rig.cloud, HEALTHY // 3
    rig.die([rig.stuck, *rig.others[:third]])
    with ThreadPoolExecutor(3) as waiting:  # its own verbs, which wait
        asked = {
            name: waiting.submit(cloud.http.request, method, f"/v1/containers/{rig.stuck}/{name}", params=query)
            for method, name, query in (
                ("GET", "stats", {}),
                ("GET", "logs", {}),
                ("POST", "execute", {"command": "true"}),
            )
        }
        assert cloud.act(rig.stuck, "stop", timeout="1").status_code == 202
        wait_until(lambda: rig.statuses("Stopped") >= set(rig.others[:third]), SOON, "events are told")
        cloud.act(rig.others[0], "start")
        cloud.act(rig.others[third], "stop", timeout="0")
        wait_until(lambda: rig.others[0] in rig.statuses("Running"), SOON, "one is started")
        wait_until(lambda: rig.others[third] in rig.statuses("Stopped"), SOON, "one is stopped")
        rig.proxy.hang(f"GET .*/events|{rig.hung}")
        rig.proxy.cut("/events")
        rest = rig.others[third + 1 :]
        rig.die(rest)
        wait_until(lambda: rig.statuses("Stopped") >= set(rest), SOON, "without events the sync finds the others")
        assert rig.agent_is_well()
        for name, answer in asked.items():
            told = answer.result()
            assert told.status_code in (503, 504), f"{name}: {told.status_code} {told.text}"
            assert "Traceback" not in told.text
    wait_until(lambda: (cloud.show(rig.stuck) or {})["task_state"] is None, 90, "the stop has ended")
    shown = cloud.show(rig.stuck)
    assert shown is not None
    assert shown["status"] == "Running", "nobody knows better"
    assert "did not" in shown["status_reason"], shown
    assert rig.agent_is_well()
    rig.proxy.mode("pass")
    rig.proxy.cut(".*")
    cloud.wait(rig.stuck, "Stopped", timeout=SOON)
    log = (rig.product.state.root / "zun-compute.log").read_text()
    assert "Traceback" not in log
