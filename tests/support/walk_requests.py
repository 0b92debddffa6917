"""A good request for each operation of the contract, in each of its versions."""

from __future__ import annotations

import base64
import io
import itertools
import secrets
import tarfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.walk import World

REAL = frozenset(
    f"container.{name}"
    for name in ("logs", "execute", "execute_resize", "attach", "resize", "top", "stats", "get_archive", "put_archive",
                 "resize_container", "show", "network_list")
) | {"container_action.list", "container_action.show"}  # fmt: skip
"""Asked of a container that runs in the engine; the others only need a record."""

FRESH = frozenset({"capsule.delete", "registry.delete", "registry.update", "image.delete"})
"""These change what they are asked about, so each request has an object of its own."""

BASE64_SINCE, LISTS_SINCE = 25, 20
_NUMBERS = itertools.count()
"""Each change of size is one: to the same size nothing has to be done."""


def archive() -> bytes:
    """A tar with one file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        member = tarfile.TarInfo("hello")
        member.size = 5
        made.addfile(member, io.BytesIO(b"hello"))
    return buffer.getvalue()


def request_of(operation: str, minor: int, world: World) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Query and body; None for no body."""
    name = f"new-{secrets.token_hex(6)}"
    if operation == "container.create":
        return {}, create_body(minor)
    if operation == "container.put_archive":
        raw = archive()
        return {"path": "/tmp"}, {"data": base64.b64encode(raw).decode() if minor >= BASE64_SINCE else raw.decode()}
    service = {"host": "ghost", "binary": "zun-compute"}
    found: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
        "container.update": ({}, {"name": name}),
        "container.rename": ({"name": name}, None),
        "container.execute": ({"command": "true"}, None),
        "container.execute_resize": ({"exec_id": world.exec_id, "h": 24, "w": 80}, None),
        "container.resize": ({"h": "24", "w": "80"}, None),
        "container.resize_container": ({}, {"cpu": (10 + next(_NUMBERS) % 80) / 100}),
        "container.get_archive": ({"path": "/etc/hostname"}, None),
        "container.commit": ({"repository": "repo"}, None),
        "container.add_security_group": ({"name": "default"}, None),
        "container.remove_security_group": ({"name": "default"}, None),
        "container.network_detach": ({"network": "default"}, None),
        "container.network_attach": ({"network": "default"}, None),
        "capsule.create": ({}, {"template": capsule(name)}),
        "image.pull": ({}, {"repo": name, "host": world.host["hostname"]}),
        "network.create": ({}, {"name": name, "neutron_net_id": "default"}),
        "quota.update": ({}, {"containers": "-1"}),
        "quota_class.update": ({}, {"containers": "-1"}),
        "registry.create": ({}, {"registry": {"domain": "registry.example.org", "name": name}}),
        "registry.update": ({}, {"registry": {"name": name}}),
        "service.delete": (service, None),
        "service.enable": (service, None),
        "service.disable": ({**service, "disabled_reason": "walk"}, None),
        "service.force_down": ({**service, "forced_down": "True"}, None),
    }
    return found.get(operation, ({}, None))


def create_body(minor: int) -> dict[str, Any]:
    """As the stock client of that version sends it."""
    body: dict[str, Any] = {"image": "busybox", "cpu": "0.1", "memory": "16", "environment": {}, "labels": {}}
    body["command"] = ["sleep", "9"] if minor >= LISTS_SINCE else '"sleep" "9"'
    return body


def capsule(name: str) -> dict[str, Any]:
    """A template of one small container."""
    resources = {"requests": {"cpu": 0.1, "memory": 16}}
    spec = {"containers": [{"image": "busybox", "resources": resources}]}
    return {"kind": "capsule", "metadata": {"name": name}, "spec": spec}
