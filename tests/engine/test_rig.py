"""The test rig itself: a leak is found, and the stock client reaches the product."""

from __future__ import annotations

import pytest

from tests.support.engine import Engine
from tests.support.product import Product
from tests.support.stock_client import StockClient


def run(product: Product, image: str) -> str:
    """Path of a container that runs."""
    body = {"image": image, "image_pull_policy": "ifnotpresent", "command": ["sleep", "600"], "memory": "64"}
    made = product.http().post("/v1/containers?run=true", json=body)
    assert made.status_code == 202, made.text
    path = f"/v1/containers/{made.json()['uuid']}"
    product.wait_status(path, "Running")
    return path


def test_what_a_container_holds_is_seen_and_cleared(shared_product: Product, busybox: str) -> None:
    run(shared_product, busybox)
    kinds = {leak.split()[0] for leak in shared_product.leaks()}
    assert {"engine", "port", "allocation", "quota"} <= kinds
    shared_product.clear()
    assert shared_product.leaks() == []


def test_a_container_without_a_record_is_a_leak(shared_product: Product, engine: Engine, busybox: str) -> None:
    owner = f"{shared_product.deployment_id}/elsewhere"
    body = {"Image": busybox, "Cmd": ["true"], "Labels": {"org.openstack.zun.owner": owner}}
    made = engine.post("/containers/create", body, name=f"zun-test-{shared_product.port}").json()["Id"]
    try:
        with pytest.raises(AssertionError, match="nothing is held"):
            shared_product.clear(timeout=0.5)
    finally:
        engine.remove(made)


def test_the_stock_client_reaches_the_product(shared_product: Product, busybox: str) -> None:
    stock = StockClient(shared_product.url, shared_product.admin_token)
    path = run(shared_product, busybox)
    assert [row["status"] for row in stock.container("list")] == ["Running"]
    assert stock.text("appcontainer", "exec", path.rpartition("/")[2], "echo", "hello").strip() == "hello"
    refused = stock.raw("appcontainer", "show", "nobody")
    assert refused.returncode == 1
    assert "(HTTP 404)" in refused.stderr
