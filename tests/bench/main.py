"""The figures the product promises, measured here and now, beside the engine's own floor in the same run.

python -m tests.bench.main [--quick] [--only SECTION]   (make bench)
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from tests.bench import capsules, cni, control_plane, engine_burst, idle, sessions, soak, throughput
from tests.bench.figure import Figure
from tests.bench.show import show
from tests.support.engine import Engine
from tests.support.product import Product

SECTIONS = {
    "control-plane": control_plane.measure,
    "burst": engine_burst.measure,
    "throughput": throughput.measure,
    "idle": idle.measure,
    "cni": cni.measure,
    "capsules": capsules.measure,
    "sessions": sessions.measure,
    "soak": soak.measure,
}
WHEN_ASKED = {"soak"}
"""Takes most of an hour: only with ``--only``."""


def main() -> None:
    """Measure every section, each on a product of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, less exact")
    parser.add_argument("--only", choices=sorted(SECTIONS), help="one section")
    chosen = parser.parse_args()
    engine = Engine()
    image = engine.load_busybox()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="zun-bench-") as folder:
        for name, measure in SECTIONS.items():
            if chosen.only != name and (chosen.only or name in WHEN_ASKED):
                continue
            product = Product(Path(folder) / name, engine)
            try:
                figures += asyncio.run(measure(product, image, chosen.quick))
            finally:
                product.stop()
    engine.close()
    show(figures)


if __name__ == "__main__":
    main()
