"""What the CNI plug-in costs a sandbox beside the daemon's work."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.figure import Figure, percentile
from tests.support.cni import CniNode, sandbox_id
from tests.support.product import Product

_WANTED = 60.0  # ms


async def measure(product: Product, image: str, quick: bool) -> list[Figure]:
    """A DEL of what was never there: the daemon answers at once, so that start-up and reply are all there is."""
    return await asyncio.to_thread(_measure, product.state.root / "cni-node", 20 if quick else 100)


def _measure(folder: Path, rounds: int) -> list[Figure]:
    node = CniNode(folder).install().start()
    try:
        interpreter = node.plugin.read_text().split("\n")[0].removeprefix("#!").split()
        floor = _timed(lambda: subprocess.run([*interpreter, "-c", "pass"], check=True), rounds)
        spent = _timed(lambda: node.delete("", sandbox_id()).ok(), rounds)
    finally:
        node.terminate()
    middle, slow = percentile(spent, 0.5), percentile(spent, 0.95)
    return [
        Figure(
            "zun-cni, start-up and reply",
            f"{middle:.0f} ms, p95 {slow:.0f} ms",
            f"≤ {_WANTED:.0f} ms",
            middle <= _WANTED,
            f"interpreter {percentile(floor, 0.5):.0f} ms",
        )
    ]


def _timed(work: Callable[[], object], rounds: int) -> list[float]:
    """Milliseconds of each round."""
    spent = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        spent.append((time.perf_counter() - began) * 1000)
    return spent
