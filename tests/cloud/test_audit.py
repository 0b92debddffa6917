"""``zun-manage audit`` beside a cloud: what it removes from Neutron, Cinder and Placement, and what it leaves."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.cloud.test_network_kuryr import User
from tests.support.cloud_product import PROGRAMS, CloudProduct, Service
from tests.support.namespaces import OVS_DATABASE, OVS_ENV
from tests.support.testbed import Testbed
from tests.support.testbed_project import Project
from tests.support.wait import wait_until
from zun.network.neutron_groups import MARK

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def user(make_cloud_product: Callable[..., CloudProduct], project: Project) -> User:
    """Of a product that looks for leftovers so seldom that the audit has to."""
    product: CloudProduct = make_cloud_product()
    product.conf(
        DEFAULT={"sync_container_state_interval": -1},
        network={"driver": "direct", "ovsdb_connection": OVS_DATABASE},
        volume={"timeout_wait_volume_deleted": 20},
        compute={"orphan_grace_seconds": 3600, "reaper_interval": 600, "abandoned_volume_seconds": 1},
    )
    return User(product.start(), project)


COUNTED = {"cpu": "1000 * cpu", "memory": "memory", "disk": "disk"}
"""What a project's quota counts of a container: CPU in millicores there, in cores here."""


def audit(service: Service, *options: str, code: int) -> dict[str, Any]:
    command = [str(PROGRAMS / "zun-manage"), "--config-file", str(service.conf_file), "audit", "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=OVS_ENV, check=False)
    assert done.returncode == code, f"{done.returncode} {done.stdout} {done.stderr}"
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def states(report: dict[str, Any]) -> list[tuple[str, str]]:
    return sorted((one["kind"], one["state"]) for one in report["findings"])


def forget(product: CloudProduct, uuid: str) -> None:
    """The record goes, as with a database restored from an older backup: the quota does not count it."""
    counts = (f"{name} = {name} - (SELECT {what} FROM containers WHERE uuid = %s)" for name, what in COUNTED.items())
    amounts = ", ".join(counts)
    product.query(f"UPDATE quota_usages SET containers = containers - 1, {amounts}", *[uuid] * len(COUNTED))
    product.query("DELETE FROM containers WHERE uuid = %s", uuid)
    product.query("DELETE FROM volume_mappings WHERE container_uuid = %s", uuid)


@pytest.fixture
def foreign(testbed: Testbed, project: Project) -> Iterator[Callable[[], list[bool]]]:
    """What another container service has: a port, a security group, a hold on a volume. Which of them are there?"""
    other, zun = str(uuid4()), testbed.zun
    body: dict[str, Any] = {"network_id": project.network_id, "device_id": other, "device_owner": "compute:zun"}
    port = testbed.admin.call("network", "POST", "/v2.0/ports", json={"port": {**body, "project_id": project.id}})[
        "port"
    ]
    body = {"name": f"zun-{other}", "description": f"{MARK} {other}", "project_id": project.id}
    group = testbed.admin.call("network", "POST", "/v2.0/security-groups", json={"security_group": body})
    made = project.account.call("volumev3", "POST", "/volumes", json={"volume": {"size": 1, "name": "theirs"}})
    volume = made["volume"]["id"]
    wait_until(lambda: (testbed.volume(volume) or {})["status"] == "available", 60, "the volume is made")
    hold = {"attachment": {"volume_uuid": volume, "instance_uuid": other, "connector": None}}
    held = zun.call("volumev3", "POST", "/attachments", json=hold)["attachment"]["id"]
    service = {"X-Service-Token": zun.token}

    def there() -> list[bool]:
        groups = testbed.security_groups(id=group["security_group"]["id"])
        attachment = zun.call("volumev3", "GET", f"/attachments/{held}", absent_ok=True)
        return [testbed.port(port["id"]) is not None, bool(groups), attachment is not None]

    yield there
    zun.ask("volumev3", "DELETE", f"/attachments/{held}", headers=service)


def test_what_services_hold_for_nobody_is_removed_and_what_a_node_has_mounted_is_left_to_it(
    user: User, testbed: Testbed, foreign: Callable[[], list[bool]]
) -> None:
    product = user.product
    mounts = [{"size": "1", "destination": "/data"}]
    kept, lost = (user.create(exposed_ports={"80": {}}, mounts=mounts) for _ in range(2))
    for uuid in (kept, lost):
        user.settled(uuid, "Running")
    assert audit(product.node, "--heal", "--grace", "0", code=0)["findings"] == []
    forget(product, lost)
    cloud_kinds = ["allocation", "attachment", "port", "security_group", "volume"]
    seen = audit(product.api, "--scope", "cloud", "--host", "elsewhere", code=1)
    assert states(seen) == [(kind, "found") for kind in cloud_kinds]
    healed = audit(product.api, "--scope", "cloud", "--host", "elsewhere", "--heal", "--grace", "0", code=1)
    kept_there = [one for one in healed["findings"] if one["state"] == "kept"]
    assert {one["kind"] for one in kept_there} == {"attachment", "volume"}
    assert f"host {product.node.host} has it" in next(o["note"] for o in kept_there if o["kind"] == "attachment")
    assert testbed.ports(device_id=lost) == []
    assert testbed.security_groups(name=f"zun-{lost}") == []
    assert testbed.allocation(lost) == {}
    here = audit(product.node, "--heal", "--grace", "0", code=0)
    assert {kind for kind, _ in states(here)} == {"engine_container", "mount", "volume"}, "its devices went with it"
    assert testbed.volumes_attached_to(lost) == []
    assert audit(product.node, code=0)["findings"] == []
    assert len(testbed.ports(device_id=kept)) == len(testbed.volumes_attached_to(kept)) == 1
    assert foreign() == [True, True, True]
    user.delete(kept, timeout=300)
