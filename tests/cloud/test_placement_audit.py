"""``zun-manage placement audit`` beside a cloud: what it finds and makes right in Placement, and what it leaves."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.support.cloud_product import PROGRAMS, CloudProduct
from tests.support.testbed import Testbed
from tests.support.wait import wait_until


@pytest.fixture
def product(make_cloud_product: Callable[..., CloudProduct]) -> Iterator[CloudProduct]:
    """One whose node leaves claims alone for long: the audit has to do it."""
    one: CloudProduct = make_cloud_product()
    one.conf(
        DEFAULT={"image_driver_list": "docker", "sync_container_state_interval": 600},
        network={"driver": "local"},
        volume={"driver_list": "local"},
    )
    yield one.start()
    one.clear()


def audit(product: CloudProduct, *options: str, code: int) -> dict[str, Any]:
    command = [str(PROGRAMS / "zun-manage"), "--config-file", str(product.api.conf_file), "placement", "audit"]
    done = subprocess.run([*command, "--json", "--wait", "1", *options], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, f"{done.returncode} {done.stdout} {done.stderr}"
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def found(report: dict[str, Any]) -> set[tuple[str, str, bool]]:
    return {(one["kind"], one["consumer"] or one["provider"], one["healed"]) for one in report["findings"]}


def created(product: CloudProduct) -> str:
    body = {"image": product.image, "cpu": 0.1, "memory": 16}
    answer = product.http().post("/v1/containers", params={"run": "false"}, json=body)
    assert answer.status_code == 202, answer.text
    uuid = str(answer.json()["uuid"])

    def status() -> str:
        row = product.http().get(f"/v1/containers/{uuid}").json()
        assert row["status"] != "Error", row
        return str(row["status"])

    wait_until(lambda: status() == "Created", 60, f"{uuid} is created")
    return uuid


class Hand:
    """Writes into Placement what no service of ours would."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed

    def claim(self, consumer: str, host: str, kind: str = "CONTAINER", **resources: int) -> None:
        provider = self._testbed.provider(host)
        assert provider is not None
        seen = self._ask("GET", f"/allocations/{consumer}")
        body = {
            "allocations": {provider["uuid"]: {"resources": resources}},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": seen.get("consumer_generation"),
            "consumer_type": kind,
        }
        self._ask("PUT", f"/allocations/{consumer}", json=body)

    def release(self, consumer: str) -> None:
        self._ask("DELETE", f"/allocations/{consumer}")

    def provider(self, name: str, aggregate: str, *traits: str) -> str:
        uuid = str(uuid4())
        self._ask("POST", "/resource_providers", json={"uuid": uuid, "name": name})
        path = f"/resource_providers/{uuid}"
        body: dict[str, Any] = {"aggregates": [aggregate], "resource_provider_generation": 0}
        generation = self._ask("PUT", f"{path}/aggregates", json=body)["resource_provider_generation"]
        body = {"traits": list(traits), "resource_provider_generation": generation}
        self._ask("PUT", f"{path}/traits", json=body)
        return uuid

    def remove(self, uuid: str) -> None:
        self._ask("DELETE", f"/resource_providers/{uuid}")

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        headers = {"OpenStack-API-Version": "placement 1.38"}
        return self._testbed.admin.call("placement", method, path, headers=headers, absent_ok=True, **options)


@pytest.fixture
def hand(testbed: Testbed) -> Hand:
    return Hand(testbed)


def test_what_is_right_is_left_alone(product: CloudProduct, testbed: Testbed) -> None:
    uuid = created(product)
    report = audit(product, "--heal", code=0)
    assert (report["findings"], report["containers"], report["providers"], report["consumers"]) == ([], 1, 1, 1)
    assert testbed.allocation(uuid) == {"VCPU": 1, "MEMORY_MB": 16}


def test_leaks_gaps_and_wrong_amounts_are_found_and_made_right(
    product: CloudProduct, testbed: Testbed, hand: Hand
) -> None:
    host, leaked, instance = product.node.host, str(uuid4()), str(uuid4())
    missing, wrong = created(product), created(product)
    hand.claim(leaked, host, VCPU=1, MEMORY_MB=5)
    hand.claim(instance, host, "INSTANCE", VCPU=1, MEMORY_MB=7)
    hand.release(missing)
    hand.claim(wrong, host, VCPU=2, MEMORY_MB=16)
    try:
        seen = audit(product, code=1)
        expected = {("leaked", leaked, False), ("missing", missing, False), ("wrong", wrong, False)}
        assert found(seen) == expected
        assert seen["others"] == 1
        assert testbed.allocation(leaked)  # looking changes nothing
        healed = audit(product, "--heal", code=0)
        assert found(healed) == {(kind, uuid, True) for kind, uuid, _ in expected}
        assert testbed.allocations_on(host) == {
            missing: {"VCPU": 1, "MEMORY_MB": 16},
            wrong: {"VCPU": 1, "MEMORY_MB": 16},
            instance: {"VCPU": 1, "MEMORY_MB": 7},
        }
        assert audit(product, code=0)["findings"] == []
    finally:
        hand.release(instance)


def test_a_container_deleted_behind_placements_back_is_known_by_its_operations(
    product: CloudProduct, testbed: Testbed, hand: Hand
) -> None:
    uuid = created(product)
    assert product.http().delete(f"/v1/containers/{uuid}").status_code == 204
    wait_until(lambda: not product.recorded(), 60, "it is gone")
    hand.claim(uuid, product.node.host, "UNTOLD", VCPU=1)  # as a service before consumer types would have
    assert found(audit(product, "--heal", code=0)) == {("leaked", uuid, True)}
    assert testbed.allocation(uuid) == {}


def test_providers_without_a_node_go_unless_they_are_anothers_too(
    product: CloudProduct, testbed: Testbed, hand: Hand
) -> None:
    deployment = product.deployment_id or ""
    ours = hand.provider(f"{product.name}-old", deployment)
    novas = hand.provider(f"{product.name}-nova", deployment, "COMPUTE_NODE")
    try:
        assert found(audit(product, code=1)) == {
            ("provider_without_node", ours, False),
            ("provider_without_node", novas, False),
        }
        report = audit(product, "--heal", code=1)
        assert found(report) == {("provider_without_node", ours, True), ("provider_without_node", novas, False)}
        assert any("COMPUTE_NODE" in one["note"] for one in report["findings"])
        assert testbed.provider(f"{product.name}-old") is None
    finally:
        hand.remove(novas)


def test_no_answer_is_exit_code_2(product: CloudProduct) -> None:
    product.conf(placement_client={"endpoint_override": "http://127.0.0.1:1"}).write()
    command = [str(PROGRAMS / "zun-manage"), "placement", "audit", "--config-file", str(product.api.conf_file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "Placement is not available" in done.stderr
