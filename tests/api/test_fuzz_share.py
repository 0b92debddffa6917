"""A small share of ``make fuzz``, by the same code: changed creates, capsules and archives at a populated product.

Chained requests are in ``test_schemathesis``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import mutations
from tests.fuzz.population import population

pytestmark = pytest.mark.timeout(900)
REQUESTS, SEED = 1500, 1
SECONDS = 600.0
"""More than twenty times what they take on a machine that is idle: all of them are to be sent."""
AGAIN = f'make fuzz ARGS="--mutated {REQUESTS} --chained 0 --workers 1 --seed {SEED}" sends the same requests'


def test_requests_that_nobody_sends(tmp_path: Path) -> None:
    """No 5xx, no answer without its form, no hang, memory that stays, a product that works afterwards."""
    with population(tmp_path / "zun") as made:
        found = mutations.run(made, tmp_path, requests=REQUESTS, seed=SEED, workers=1, seconds=SECONDS)
    assert not found.faults, "\n".join([f"seed {SEED}: {AGAIN}", *found.faults])
    assert found.sent == REQUESTS
    # Of each kind some get as far as the engine; few archives are still whole, and those mostly go to nowhere.
    for wanted in ("create 202", "capsule 202", "patch 200", "get_archive 200", "put_archive 404"):
        assert found.answers[wanted], f"seed {SEED}: nothing was answered {wanted}; {found.answers}"
