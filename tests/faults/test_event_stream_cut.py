"""The engine's event stream is cut again and again while containers end and start: the last word is the engine's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cloud import Cloud
from tests.support.engine_proxy import ProxyThread
from tests.support.product import Product
from tests.support.wait import wait_until

TURNS = 6
NEVER = "600"
"""Seconds between syncs that nobody asked for: what is found is found since the stream was cut."""


@pytest.fixture
def proxied(make_product: Callable[[], Product], tmp_path: Path) -> Iterator[tuple[Product, ProxyThread]]:
    proxy = ProxyThread(tmp_path / "docker.sock")
    try:
        product = make_product()
        product.conf(docker={"api_url": f"unix://{proxy.path}"}, DEFAULT={"sync_container_state_interval": NEVER})
        yield product.start(), proxy
        product.clear()
    finally:
        proxy.stop()


def test_ends_and_starts_while_the_stream_is_cut_are_told(proxied: tuple[Product, ProxyThread], busybox: str) -> None:
    product, proxy = proxied
    cloud = Cloud(product, busybox)
    ends, starts = (cloud.running(image_pull_policy="ifnotpresent")["uuid"] for _ in range(2))
    over = threading.Event()

    def cut() -> None:
        while not over.wait(0.05):
            proxy.cut("/events")

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        for _ in range(TURNS):
            for uuid in (ends, starts):
                product.engine.post(f"/containers/zun-{uuid}/kill")
                wait_until(lambda uuid=uuid: not cloud.engine(uuid)["State"]["Running"], 30, "it has ended")  # type: ignore[misc, index]
                product.engine.post(f"/containers/zun-{uuid}/start")
        product.engine.post(f"/containers/zun-{ends}/kill")
    finally:
        over.set()
        cutter.join(30)
    cloud.wait(ends, "Stopped")
    cloud.wait(starts, "Running")
    assert "Traceback" not in product.log()
