"""The figures as a table."""

from __future__ import annotations

import os

from rich.console import Console
from rich.table import Table

from tests.bench.figure import Figure


def show(figures: list[Figure]) -> None:
    """Print the table: what, measured, the engine's floor, wanted, met or not."""
    table = Table(title=f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end")
    for name in ("figure", "measured", "engine alone", "wanted", ""):
        table.add_column(name)
    for figure in figures:
        table.add_row(figure.name, figure.measured, figure.floor, figure.wanted, "met" if figure.met else "NOT MET")
    Console(width=130).print(table)
