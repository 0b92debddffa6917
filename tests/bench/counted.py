"""What a product holds of this machine now."""

from __future__ import annotations

from dataclasses import dataclass

import httpx
import psutil

from tests.support.plain_http import PLAIN
from tests.support.product import Product


@dataclass(frozen=True)
class Counted:
    """Of the process and its children; ``tasks``: of its event loop, by its own metrics."""

    tasks: int
    files: int
    threads: int
    processes: int


async def counted(product: Product, metrics_port: int) -> Counted:
    async with httpx.AsyncClient(verify=PLAIN, trust_env=False) as reader:
        text = (await reader.get(f"http://127.0.0.1:{metrics_port}/metrics")).text
    tasks = next(int(float(line.split()[1])) for line in text.splitlines() if line.startswith("zun_tasks "))
    first = psutil.Process(product.pid)
    ours = (first, *first.children(recursive=True))
    files, threads = sum(one.num_fds() for one in ours), sum(one.num_threads() for one in ours)
    return Counted(tasks, files, threads, len(ours))
