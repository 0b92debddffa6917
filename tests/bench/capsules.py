"""A capsule of one container from POST to Running, beside what its engine took for its own calls of it."""

from __future__ import annotations

import asyncio
import tempfile
import time
from datetime import datetime
from pathlib import Path

from tests.bench.figure import Figure, percentile
from tests.support.capsule_cloud import CapsuleCloud
from tests.support.product import Product

ENGINES_OWN = ("sandbox", "start")
"""Steps of a create that wait for the engine, and for the network plug-in that it calls."""


async def measure(product: Product, image: str, quick: bool) -> list[Figure]:
    """On a product and a containerd of its own; ``product`` only names the engine for containers."""
    with tempfile.TemporaryDirectory(prefix="zun-bench-capsules-") as folder:
        cloud = CapsuleCloud(Path(folder), product.engine)
        try:
            await asyncio.to_thread(cloud.start)
            rounds = [await asyncio.to_thread(_round, cloud) for _ in range(5 if quick else 20)]
        finally:
            await asyncio.to_thread(cloud.close)
    took, floor = percentile([one for one, _ in rounds], 0.5), percentile([own for _, own in rounds], 0.5)
    return [
        Figure(
            "a capsule, POST to Running",
            f"{took * 1000:.0f} ms",
            "≤ the engine's own calls + 100 ms",
            took <= floor + 0.1,
            f"{floor * 1000:.0f} ms",
        )
    ]


def _round(cloud: CapsuleCloud) -> tuple[float, float]:
    """(seconds until Running was seen, seconds of them in the engine)."""
    begin = time.perf_counter()
    uuid = cloud.create({})
    wanted = {"wait_for": "Running", "timeout": "60"}
    shown = cloud.http.get(f"/v1/capsules/{uuid}", params=wanted).json()
    assert shown["status"] == "Running", shown["status_reason"]
    took = time.perf_counter() - begin
    path = f"/v1/containers/{shown['containers'][0]['uuid']}/container_actions"
    (action,) = cloud.http.get(path).json()["containerActions"]
    steps = cloud.http.get(f"{path}/{action['request_id']}").json()["events"]
    cloud.delete(uuid)
    return took, sum(_seconds(step) for step in steps if step["event"] in ENGINES_OWN)


def _seconds(step: dict[str, str]) -> float:
    begin, end = (datetime.fromisoformat(step[name]) for name in ("start_time", "finish_time"))
    return (end - begin).total_seconds()
