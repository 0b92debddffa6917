"""What the product takes while a hundred containers run and nobody asks for anything."""

from __future__ import annotations

import asyncio
import time

import psutil

from tests.bench.figure import Figure
from tests.support.product import Product

CONTAINERS = 100


async def measure(product: Product, image: str, quick: bool) -> list[Figure]:
    """CPU over a minute that holds a sync and an inventory; resident memory of all processes of the product."""
    product.conf(quota={"containers": "-1", "cpu": "-1", "memory": "-1"})
    await asyncio.to_thread(product.start)
    body = {"image": image, "command": ["sleep", "6000"], "cpu": 0.1, "memory": 16, "image_pull_policy": "ifnotpresent"}
    async with product.client(timeout=300) as client:
        for _ in range(CONTAINERS // 20):
            posts = (client.post("/v1/containers", params={"run": "true"}, json=body) for _ in range(20))
            for answer in await asyncio.gather(*posts):
                assert answer.status_code == 202, answer.text
            while True:
                rows = (await client.get("/v1/containers")).json()["containers"]
                if all(row["status"] == "Running" for row in rows):
                    break
                await asyncio.sleep(0.2)
    await asyncio.sleep(10)  # what the creates left to do
    processes = [psutil.Process(product.pid), *psutil.Process(product.pid).children(recursive=True)]
    before, begin = _cpu(processes), time.perf_counter()
    await asyncio.sleep(25 if quick else 70)
    share = (_cpu(processes) - before) / (time.perf_counter() - begin) * 100
    memory = sum(process.memory_info().rss for process in processes) / 1e6
    await asyncio.to_thread(product.clear, 300)
    return [
        Figure(f"idle CPU, {CONTAINERS} containers", f"{share:.2f} % of a core", "≤ 1 %", share <= 1),
        Figure(f"memory (RSS), {CONTAINERS} containers", f"{memory:.0f} MB", "≤ 180 MB", memory <= 180),
    ]


def _cpu(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)
