"""Kuryr's pools of a rig's network, and how engine and Kuryr come to know nothing of it."""

from __future__ import annotations

from typing import Any

from tests.faults.cloud_rig import FaultRig
from tests.support.testbed import MACHINE


def forget_network(rig: FaultRig) -> str:
    """The engine and Kuryr's pools have nothing of the project's network any more; how the pools are marked."""
    network, admin = rig.project.network_id, rig.testbed.admin
    rig.engine.remove_network(network)
    mark = f"Docker network {network} on host {MACHINE}"
    for pool in pools(rig, mark):
        admin.call("network", "DELETE", f"/v2.0/subnetpools/{pool['id']}")
    return mark


def pools(rig: FaultRig, mark: str) -> list[dict[str, Any]]:
    found = rig.testbed.admin.call("network", "GET", "/v2.0/subnetpools", params={"description": mark})
    return list(found["subnetpools"])
