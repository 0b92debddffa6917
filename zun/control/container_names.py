"""Names nobody chose: ``<greek letter>-<1..24>-container``."""

from __future__ import annotations

import random

_LETTERS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
    "lambda",
    "mu",
    "nu",
    "xi",
    "omicron",
    "pi",
    "rho",
    "sigma",
    "tau",
    "upsilon",
    "phi",
    "chi",
    "psi",
    "omega",
]


def suffix() -> str:
    """``<greek letter>-<1..24>``."""
    return f"{random.choice(_LETTERS)}-{random.randint(1, 24)}"  # noqa: S311 - not a secret


def generate() -> str:
    """A name a person can say; duplicates are allowed unless the operator forbids them."""
    return f"{suffix()}-container"
