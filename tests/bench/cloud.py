"""The figures promised beside a real cloud, each with the same outside calls made by hand in the same run.

python -m tests.bench.cloud [--quick] [--only SECTION]   (make bench-cloud). Needs the testbed.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

from tests.bench.by_hand import ByHand
from tests.bench.cloud_rounds import Rounds
from tests.bench.figure import Figure, percentile
from tests.bench.show import show
from tests.support.cloud_product import CloudProduct
from tests.support.engine import Engine
from tests.support.testbed import Testbed
from tests.support.testbed_project import Project

MANY = 20


async def kuryr(product: CloudProduct, rounds: Rounds, hand: ByHand, quick: bool) -> list[Figure]:
    """POST to 202, and to Running at one and at twenty; DELETE to gone; log-ins."""
    count = 5 if quick else 15
    answered, running, alone = [], [], []
    for _ in range(count):
        first, up, uuid = await rounds.create()
        answered.append(first)
        running.append(up)
        await rounds.remove([uuid])
        alone.append(await hand.with_kuryr(1))
    together, together_alone = [], []
    for _ in range(1 if quick else 2):
        seconds, uuids = await rounds.create_many(MANY)
        together.append(seconds)
        await rounds.remove(uuids)
        together_alone.append(await hand.with_kuryr(MANY))
    gone, gone_alone = [], []
    for _ in range(count):
        gone.append(await rounds.delete_one())
        gone_alone.append(await hand.gone_with_kuryr())
    posted, one, floor = percentile(answered, 0.5), percentile(running, 0.5), percentile(alone, 0.5)
    many, many_floor = percentile(together, 0.5), percentile(together_alone, 0.5)
    left, left_floor = percentile(gone, 0.5), percentile(gone_alone, 0.5)
    return [
        Figure("POST to 202, median", f"{posted * 1000:.0f} ms", "≤ 350 ms", posted <= 0.35),
        _ratio("Kuryr: POST to Running, median", one, floor, 1.15),
        _ratio(f"Kuryr: {MANY} at once", many, many_floor, 1.15),
        Figure("Kuryr: DELETE to gone, median", f"{left:.2f} s", "≤ 1.2 s", left <= 1.2, f"{left_floor:.2f} s"),
        _logins(product),
    ]


async def direct(product: CloudProduct, rounds: Rounds, hand: ByHand, quick: bool) -> list[Figure]:
    """To Running at one and at twenty, and DELETE to gone, without Kuryr."""
    running, gone = [], []
    for _ in range(5 if quick else 15):
        _, up, uuid = await rounds.create()
        running.append(up)
        await rounds.remove([uuid])
        gone.append(await rounds.delete_one())
    together, alone = [], []
    for _ in range(1 if quick else 3):
        seconds, uuids = await rounds.create_many(MANY)
        together.append(seconds)
        await rounds.remove(uuids)
        alone.append(await hand.with_direct(MANY))
    left = percentile(gone, 0.5)
    one, many, floor = percentile(running, 0.5), percentile(together, 0.5), percentile(alone, 0.5)
    return [
        Figure("direct: POST to Running, median", f"{one:.2f} s", "≤ 1.2 s", one <= 1.2),
        Figure("direct: DELETE to gone, median", f"{left:.2f} s", "≤ 1.2 s", left <= 1.2),
        _ratio(f"direct: {MANY} at once", many, floor, 1.25),
        Figure(f"direct: {MANY} at once", f"{many:.1f} s", "under 30 s", many < 30),
    ]


SECTIONS: dict[str, Callable[[CloudProduct, Rounds, ByHand, bool], Awaitable[list[Figure]]]] = {
    "kuryr": kuryr,
    "direct": direct,
}


def _ratio(name: str, ours: float, floor: float, wanted: float) -> Figure:
    measured = f"{ours:.2f} s ({ours / floor:.2f} ×)"
    return Figure(name, measured, f"≤ {wanted:g} × by hand", ours <= wanted * floor, f"{floor:.2f} s")


def _logins(product: CloudProduct) -> Figure:
    """Tokens that our processes asked for in the whole run: one each, none while one is valid."""
    counts = [service.log().count("action=keystone-login result=ok") for service in product.services]
    return Figure("log-ins of our account, a process", str(max(counts)), "1", max(counts) == 1)


async def _section(name: str, product: CloudProduct, project: Project, quick: bool) -> list[Figure]:
    headers = product.headers(project.account)
    limits = httpx.Limits(max_connections=MANY * 2)
    async with httpx.AsyncClient(base_url=product.url, headers=headers, timeout=120, limits=limits) as client:
        rounds = Rounds(client)
        _, _, uuid = await rounds.create()  # the first one makes the network and warms all services
        async with ByHand(product, project, uuid) as hand:
            await rounds.remove([uuid])
            return await SECTIONS[name](product, rounds, hand, quick)


def main() -> None:
    """Each section on a product of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, less exact")
    parser.add_argument("--only", choices=sorted(SECTIONS), help="one section")
    chosen = parser.parse_args()
    engine, testbed = Engine(), Testbed()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="zun-bench-") as folder:
        for name in SECTIONS:
            if chosen.only not in (None, name):
                continue
            project = Project(testbed).use_network()
            product = CloudProduct(Path(folder) / name, testbed, engine).conf(network={"driver": name})
            product.conf(DEFAULT={"sync_container_state_interval": 60})  # as operators have it
            try:
                product.start()
                figures += asyncio.run(_section(name, product, project, chosen.quick))
                product.clear()
            finally:
                product.close()
                project.remove(engine)
    testbed.close()
    engine.close()
    show(figures)


if __name__ == "__main__":
    main()
