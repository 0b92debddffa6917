"""What our control plane adds to one create: POST to the engine's start call, start event to ``Running`` seen.

Time in which a call of ours is with the engine is the engine's; the rest is ours.
"""

from __future__ import annotations

import asyncio
import json
import time
from functools import partial

import httpx

from tests.bench.figure import Figure, percentile
from tests.support.engine_proxy import EngineProxy, busy_seconds
from tests.support.product import Product
from tests.support.wait import eventually

POLL = 0.005  # seconds between two looks of the client


async def measure(product: Product, image: str, quick: bool) -> list[Figure]:
    """Start-up, then creates one after the other through a proxy that notes every engine call."""
    proxy = await EngineProxy(product.state.root / "engine.sock").start()
    product.conf(docker={"api_url": f"unix://{proxy.path}"}, quota={"containers": "-1", "cpu": "-1", "memory": "-1"})
    begin = time.time()
    await asyncio.to_thread(product.start)
    first = time.time() - begin
    await asyncio.to_thread(product.terminate)
    begin = time.time()
    await asyncio.to_thread(product.start)
    again = time.time() - begin
    added: list[float] = []
    floors: list[float] = []
    async with product.client() as client:
        for _ in range(15 if quick else 100):
            ours, engines = await _one(client, proxy, product, image)
            added.append(ours * 1000)
            floors.append(engines * 1000)
    seen = await _behind_its_back(product, image)
    await asyncio.to_thread(product.clear)
    await proxy.stop()
    median, p99 = percentile(added, 0.5), percentile(added, 0.99)
    floor = f"{percentile(floors, 0.5):.0f} ms in its calls"
    return [
        Figure("start to healthy (first / again)", f"{first:.1f} / {again:.1f} s", "≤ 3 s", max(first, again) <= 3),
        Figure("added to a create, median", f"{median:.0f} ms", "≤ 60 ms", median <= 60, floor),
        Figure("docker stop until seen, worst of 5", f"{seen * 1000:.0f} ms", "≤ 2 s", seen <= 2),
        Figure("added to a create, p99", f"{p99:.0f} ms", "≤ 200 ms", p99 <= 200, floor),
    ]


async def _one(client: httpx.AsyncClient, proxy: EngineProxy, product: Product, image: str) -> tuple[float, float]:
    """(our seconds, the engine's seconds) of one create."""
    proxy.calls.clear()
    body = {"image": image, "command": ["sleep", "600"], "cpu": 0.1, "memory": 16, "image_pull_policy": "ifnotpresent"}
    posted = time.time()
    answer = await client.post("/v1/containers", params={"run": "true"}, json=body)
    assert answer.status_code == 202, answer.text
    uuid = answer.json()["uuid"]
    while (shown := (await client.get(f"/v1/containers/{uuid}")).json())["status"] != "Running":
        assert shown["status"] != "Error", shown["status_reason"]
        await asyncio.sleep(POLL)
    seen = time.time()
    start = next(call for call in proxy.calls if call.path.endswith("/start"))
    event = await asyncio.to_thread(_start_event, product, uuid, posted)
    before = [call for call in proxy.calls if call.started < start.started and "/events" not in call.path]
    engines = busy_seconds(before, posted, start.started)
    return (start.started - posted - engines) + (seen - event), engines + (event - start.started)


def _start_event(product: Product, uuid: str, since: float) -> float:
    """When the engine says the container started, seconds of the epoch."""
    filters = json.dumps({"container": [f"zun-{uuid}"], "event": ["start"]})
    lines = product.engine.text("/events", since=f"{since:.3f}", until=f"{time.time():.3f}", filters=filters)
    return float(json.loads(lines.splitlines()[0])["timeNano"]) / 1e9


async def _behind_its_back(product: Product, image: str) -> float:
    """Longest of five times between the engine's stop and the API showing it, seconds."""
    body = {"image": image, "command": ["sleep", "600"], "cpu": 0.1, "memory": 16, "image_pull_policy": "ifnotpresent"}
    longest = 0.0
    async with product.client() as client:

        async def shows(uuid: str, status: str) -> bool:
            return bool((await client.get(f"/v1/containers/{uuid}")).json()["status"] == status)

        for _ in range(5):
            answer = await client.post("/v1/containers", params={"run": "true"}, json=body)
            uuid = str(answer.json()["uuid"])
            await eventually(partial(shows, uuid, "Running"), 60, "it runs")
            await asyncio.to_thread(product.engine.post, f"/containers/zun-{uuid}/stop", t="0")
            begin = time.monotonic()
            await eventually(partial(shows, uuid, "Stopped"), 60, "the stop is seen")
            longest = max(longest, time.monotonic() - begin)
    return longest
