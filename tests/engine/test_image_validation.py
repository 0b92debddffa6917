"""[api]/enable_image_validation with a real engine and a real registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.product import Product
from tests.support.registry import Registry, start_registry


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    started = start_registry(tmp_path / "registry", users={"ann": "secret1"})
    yield started
    started.stop()


def test_the_registry_is_asked_before_there_is_a_row(make_product: Callable[[], Product], registry: Registry) -> None:
    there = registry.push_busybox("tools/busybox", "1")
    product = make_product().conf(api={"enable_image_validation": "true"}).start()
    http = product.http()
    stored = {"name": "private", "domain": registry.address, "username": "ann", "password": "secret1"}
    assert http.post("/v1/registries", json={"registry": stored}).status_code == 201

    def create(image: str, **more: str) -> tuple[int, str]:
        answer = http.post("/v1/containers", json={"image": image, "cpu": 0.1, "memory": 16, **more})
        body = answer.json()
        return answer.status_code, body["errors"][0]["code"] if "errors" in body else ""

    missing = (400, "container.image-not-found")
    for image in ("tools/busybox:2", f"{registry.address}/tools/nothing:1"):
        assert create(image, registry="private") == missing
    assert create(there) == missing, "without credentials it cannot be had"
    assert http.get("/v1/containers").json()["containers"] == []
    assert create("tools/busybox:1", registry="private", name="works") == (202, "")
    product.wait_status("/v1/containers/works", "Created")
    registry.stop()
    status, code = create("tools/busybox:1", registry="private")
    assert (status, code) == (503, "container.")
    assert len(http.get("/v1/containers").json()["containers"]) == 1
