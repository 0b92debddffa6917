"""The fault table where Kuryr plugs: Kuryr hangs until a create gives up.

Docker waits for it without end, and says nothing; the reason names Kuryr all the same.
"""

from __future__ import annotations

import re

import pytest

from tests.faults.cloud_rig import FaultRig
from tests.faults.kuryr_pools import forget_network
from tests.faults.rows import Row, rows

pytestmark = [pytest.mark.xdist_group("faults-kuryr-hung"), pytest.mark.timeout(480)]

OPTIONS = {"network": {"driver": "kuryr"}, "docker": {"default_timeout": 6}}
"""A call that plugs is given 12 seconds more (see ``pausable``)."""
HANGS = [
    *rows("Kuryr", ("hang",), "POST /NetworkDriver.CreateNetwork", ends="Error"),
    *rows("Kuryr", ("hang",), "POST /NetworkDriver.CreateEndpoint", ends="Error"),
    *rows("Kuryr", ("hang",), "POST /NetworkDriver.Join", ends="Error"),
]


@pytest.mark.parametrize("row", HANGS, ids=str)
def test_a_create_gives_up_names_kuryr_and_leaves_nothing(rig: FaultRig, row: Row) -> None:
    if "Network" in row.step.rpartition(".")[2]:
        forget_network(rig)
    with rig.broken(row):
        uuid = rig.cloud.create(**rig.body(""))["uuid"]
        shown = rig.cloud.wait(uuid, "Error", timeout=240)
    assert re.search(row.named, shown["status_reason"]), shown["status_reason"]
    assert "while Docker itself answers" in shown["status_reason"]
    rig.nothing_is_held()
    rig.remove(uuid)
