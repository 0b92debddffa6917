"""SIGKILL after (and before) each step of create and of delete, one run a step; then a restart, and the truth:
every container ``Running`` with exactly one engine container, or ``Error``/absent with none; nothing held besides."""

from __future__ import annotations

import contextlib
import random
import threading
from pathlib import Path

import httpx
import pytest

from tests.faults.conftest import expect_truth, trap
from tests.support.cloud import Cloud
from tests.support.product import Product

UP = ("allocation", "volumes", "ports", "image", "engine", "start")
DOWN = ("stop", "release_engine", "release_ports", "release_volumes", "release_allocation")


def around(steps: tuple[str, ...]) -> list[str]:
    return [f"{when}:{step}" for step in steps for when in ("before", "after")]


CREATE = ["scheduled", "recorded", "claimed", *around(UP), "before:end", "after:end"]
DELETE = ["scheduled", "recorded", "claimed", *around(DOWN), "before:end", "after:end"]
MOUNT = {"mounts": [{"size": "1", "destination": "/data"}]}


@pytest.mark.parametrize("point", CREATE)
def test_killed_in_a_create(mortal: Product, mark: Path, point: str) -> None:
    mortal.start(trap(f"create:{point}", mark))
    with contextlib.suppress(httpx.TransportError):  # the node may come to its end before the API has answered
        Cloud(mortal, "busybox").ask(**MOUNT)
    mortal.wait_ended()
    assert mark.exists(), "the trap went off"
    mortal.start(trap("", mark))
    expect_truth(Cloud(mortal, "busybox"))


@pytest.mark.parametrize("point", DELETE)
def test_killed_in_a_delete(mortal: Product, mark: Path, point: str) -> None:
    mortal.start(trap(f"delete:{point}", mark))
    cloud = Cloud(mortal, "busybox")
    uuid = cloud.running(**MOUNT)["uuid"]
    answered = True
    try:
        cloud.delete(uuid, stop="true")
    except httpx.TransportError:
        answered = False
    mortal.wait_ended()
    assert mark.exists(), "the trap went off"
    mortal.start(trap("", mark))
    cloud = Cloud(mortal, "busybox")
    if answered:
        cloud.wait_gone(uuid)
    expect_truth(cloud)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_killed_at_random_under_twenty_concurrent_operations(mortal: Product, mark: Path, seed: int) -> None:
    chance = random.Random(seed)
    mortal.start(trap("", mark))
    cloud = Cloud(mortal, "busybox")
    uuids = [cloud.create()["uuid"] for _ in range(8)]
    for uuid in uuids:
        cloud.wait(uuid, "Running")
    verbs = ["create", "stop", "start", "reboot", "kill", "pause", "delete", "rebuild"]
    plan = [(chance.choice(verbs), chance.choice(uuids)) for _ in range(20)]
    threads = [threading.Thread(target=_one, args=(mortal, verb, uuid)) for verb, uuid in plan]
    killer = threading.Timer(chance.uniform(0.05, 1.5), mortal.kill)
    killer.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    killer.join()
    mortal.start(trap("", mark))
    expect_truth(Cloud(mortal, "busybox"))


def _one(product: Product, verb: str, uuid: str) -> None:
    """One request; the product may die while it is made."""
    headers = product.headers()
    with httpx.Client(base_url=product.url, headers=headers, timeout=60) as http:
        try:
            if verb == "create":
                answer = http.post(
                    "/v1/containers?run=true", json={"image": "busybox", "command": ["sleep", "60"], "cpu": 0.1}
                )
            elif verb == "delete":
                answer = http.delete(f"/v1/containers/{uuid}?force=true")
            else:
                answer = http.post(f"/v1/containers/{uuid}/{verb}")
        except httpx.TransportError:
            return
        assert answer.status_code < 500, answer.text
