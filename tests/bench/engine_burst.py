"""Twenty creates at once, against the engine alone doing the same twenty."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx

from tests.bench.figure import Figure, percentile
from tests.support.engine import SOCKET
from tests.support.product import Product
from tests.support.wait import eventually

MANY = 20


async def measure(product: Product, image: str, quick: bool) -> list[Figure]:
    """Rounds alternate between product and engine, so that both meet the same machine."""
    product.conf(quota={"containers": "-1", "cpu": "-1", "memory": "-1"})
    await asyncio.to_thread(product.start)
    ours: list[float] = []
    floors: list[float] = []
    async with product.client() as client:
        pattern = await _pattern(client, product, image)
        for _ in range(2 if quick else 5):
            ours.append(await _through_product(client, image))
            await asyncio.to_thread(product.clear)
            floors.append(await _engine_alone(pattern))
    took, floor = percentile(ours, 0.5), percentile(floors, 0.5)
    return [
        Figure(
            f"{MANY} creates at once",
            f"{took:.2f} s ({took / floor:.2f} ×)",
            "≤ 1.25 × the engine alone",
            took <= 1.25 * floor,
            f"{floor:.2f} s",
        )
    ]


async def _post(client: httpx.AsyncClient, image: str) -> str:
    body = {"image": image, "command": ["sleep", "600"], "cpu": 0.1, "memory": 16, "image_pull_policy": "ifnotpresent"}
    answer = await client.post("/v1/containers", params={"run": "true"}, json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["uuid"])


async def _through_product(client: httpx.AsyncClient, image: str) -> float:
    begin = time.perf_counter()
    uuids = await asyncio.gather(*(_post(client, image) for _ in range(MANY)))
    waiting = set(uuids)
    while waiting:
        rows = (await client.get("/v1/containers")).json()["containers"]
        assert not [row for row in rows if row["status"] == "Error"]
        waiting -= {row["uuid"] for row in rows if row["status"] == "Running"}
        await asyncio.sleep(0.01)
    return time.perf_counter() - begin


async def _pattern(client: httpx.AsyncClient, product: Product, image: str) -> dict[str, Any]:
    """The create body that makes the very same container: limits, log options, network."""
    uuid = await _post(client, image)

    async def runs() -> bool:
        return bool((await client.get(f"/v1/containers/{uuid}")).json()["status"] == "Running")

    await eventually(runs, 60, "the pattern container runs")
    found = await asyncio.to_thread(product.engine.container, uuid)
    assert found
    keep = ("Memory", "MemorySwap", "CpuShares", "CpuPeriod", "CpuQuota", "NanoCpus", "PidsLimit", "LogConfig")
    host = {name: found["HostConfig"][name] for name in keep if found["HostConfig"].get(name)}
    await client.delete(f"/v1/containers/{uuid}", params={"force": "true"})
    (network,) = found["NetworkSettings"]["Networks"]
    return {"Image": image, "Cmd": ["sleep", "600"], "HostConfig": host | {"NetworkMode": network}}


async def _engine_alone(pattern: dict[str, Any]) -> float:
    limits = httpx.Limits(max_connections=MANY)
    transport = httpx.AsyncHTTPTransport(uds=SOCKET, limits=limits)
    async with httpx.AsyncClient(transport=transport, base_url="http://docker", timeout=120) as engine:

        async def one() -> str:
            made = await engine.post("/containers/create", json=pattern)
            assert made.status_code == 201, made.text
            ident = str(made.json()["Id"])
            started = await engine.post(f"/containers/{ident}/start")
            assert started.status_code == 204, started.text
            return ident

        begin = time.perf_counter()
        idents = await asyncio.gather(*(one() for _ in range(MANY)))
        took = time.perf_counter() - begin
        await asyncio.gather(*(engine.delete(f"/containers/{i}", params={"force": "true"}) for i in idents))
    return took
