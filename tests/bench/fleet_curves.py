"""The curves of the fleet as an image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt

Curve = Sequence[tuple[float, int]]


def draw(file: Path, scheduled: Curve, running: Curve, nodes: int) -> None:
    """Containers over minutes; the format is that of the file's name."""
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    axes.plot([at / 60 for at, _ in scheduled], [count for _, count in scheduled], label="accepted and scheduled")
    axes.plot([at / 60 for at, _ in running], [count for _, count in running], "--", label="running")
    axes.set(xlabel="minutes", ylabel="containers", xlim=(0, None), ylim=(0, None))
    axes.set_title(f"{running[-1][1]:,} containers on {nodes:,} simulated nodes")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    plt.close(figure)
