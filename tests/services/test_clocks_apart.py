"""A node whose clock is wrong, beside an API and a database whose clocks are right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support.db_servers import Server
from tests.support.faketime import MovedClock
from tests.support.processes import agent_up, healthy, running
from tests.support.product import Product
from tests.support.wait import wait_until


def test_a_node_two_hours_off_is_up_and_works(
    make_product: Callable[[], Product], server: Server, tmp_path: Path
) -> None:
    """The database's clock judges heartbeats, leases and due times (S6.1)."""
    clock = MovedClock(tmp_path, -7200 if server.name == "mariadb" else 7200)
    product = make_product()
    product.conf(
        DEFAULT={
            "container_driver": "simulated",
            "transport_url": f"unix://{tmp_path}/bus",
            "periodic_interval_max": 2,
        },
        database={"connection": server.create_database(f"apart{product.port}")},
    )
    product.start().terminate()  # makes tables and token
    with running("zun-api", product), running("zun-compute", product, clock.before):
        wait_until(lambda: healthy(product), 120, "zun-api answers")
        http = product.http()
        wait_until(lambda: agent_up(http), 120, "zun-compute is up")
        made = http.post("/v1/containers", params={"run": "true"}, json={"image": "busybox", "command": ["sleep", "9"]})
        assert made.status_code == 202, made.text
        path = f"/v1/containers/{made.json()['uuid']}"
        product.wait_status(path, "Running")
        (service,) = http.get("/v1/services").json()["services"]
        wait_until(
            lambda: http.get("/v1/services").json()["services"][0]["report_count"] > service["report_count"] + 1,
            60,
            "the host reports on",
        )
        assert agent_up(http)
        assert http.delete(path, params={"force": "true"}).status_code == 204
        wait_until(lambda: http.get(path).status_code == 404, 60, "it is gone")
    told = "this machine's clock and the database's differ"
    assert told in (product.state.root / "zun-compute.log").read_text()
    assert told not in (product.state.root / "zun-api.log").read_text()
