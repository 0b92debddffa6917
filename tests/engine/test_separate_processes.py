"""zun-api and zun-compute as two processes over the socket bus, with one zun.conf."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.support.processes import agent_up, healthy, running
from tests.support.product import ZUN, Product
from tests.support.wait import wait_until


def test_a_container_runs_and_the_agent_may_be_away(
    make_product: Callable[[], Product], busybox: str, tmp_path: Path
) -> None:
    product = make_product().start()  # makes database and token
    product.terminate()
    product.conf(DEFAULT={"transport_url": f"unix://{tmp_path}/bus"})
    body = {"image": busybox, "image_pull_policy": "ifnotpresent", "command": ["sleep", "600"], "memory": "64"}
    with running("zun-api", product):
        wait_until(lambda: healthy(product), 90, "zun-api answers")
        http = product.http()
        with running("zun-compute", product):
            wait_until(lambda: agent_up(http), 90, "zun-compute is up")
            made = http.post("/v1/containers?run=true", json=body)
            assert made.status_code == 202, made.text
            path = f"/v1/containers/{made.json()['uuid']}"
            product.wait_status(path, "Running")
        assert http.delete(path, params={"force": "true"}).status_code == 204  # nobody hears it
        with running("zun-compute", product):
            wait_until(lambda: http.get(path).status_code == 404, 60, "the delete is done when the agent is back")
            wait_until(lambda: not product.leaks(), 30, "nothing is held")


def test_a_wrong_option_is_one_sentence(make_product: Callable[[], Product]) -> None:
    product = make_product().conf(api={"port": "http"})
    for name in ("zun-api", "zun-compute"):
        command = [str(ZUN.with_name(name)), "--config-file", str(product.state.conf_file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 1
        assert done.stderr.startswith("zun: Wrong configuration: ")
        assert done.stderr.count("\n") == 1
