"""The security group ``zun-<uuid>`` that opens a container's ``exposed_ports``: made before its ports, removed after
them, found by its name (S3.6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from zun.domain.container import Container
from zun.domain.held import Held, moment
from zun.network.neutron_api import NeutronApi, Row, failure
from zun.openstack.client import Refused

LOG = logging.getLogger(__name__)

MARK = "Opens the exposed ports of container"
"""Begins the description of our groups: the user may have others of such a name."""
_PAUSES = (0.1, 0.3, 0.6, 1.0, 2.0, 3.0)
"""Seconds between tries to delete a group that a port just deleted still uses."""


class NeutronGroups:
    """Both methods are idempotent. Raises NetworkSetupFailed, ServiceUnavailable."""

    def __init__(self, api: NeutronApi) -> None:
        self._api = api

    async def ensure(self, container: Container) -> str | None:
        """The group's id, with a rule for each port, protocol and IP version; None when nothing is exposed."""
        if not container.exposed_ports:
            return None
        try:
            found = await self._of(container.uuid)
            group = found[0] if found else (await self._api.create("security-groups", [_body(container)]))[0]
            present = {_key(rule) for rule in group["security_group_rules"] if rule["direction"] == "ingress"}
            lacking = [rule for rule in _rules(container, group["id"]) if _key(rule) not in present]
            if lacking:
                await self._api.create("security-group-rules", lacking)
        except Refused as refusal:
            raise failure("the security group of the exposed ports", refusal) from refusal
        return str(group["id"])

    async def all(self) -> Sequence[Held]:
        """Every group of that kind; other deployments' too."""
        fields = ["id", "name", "description", "created_at"]
        try:
            rows = await self._api.find("security-groups", fields=fields)
        except Refused as refusal:
            raise failure("the list of security groups", refusal) from refusal
        ours = [row for row in rows if (row.get("description") or "").startswith(MARK)]
        return [Held(row["id"], row["name"].removeprefix("zun-"), moment(row.get("created_at"))) for row in ours]

    async def release(self, container_uuid: str) -> None:
        """Delete it. None is success."""
        try:
            await asyncio.gather(*(self._delete(group["id"]) for group in await self._of(container_uuid)))
        except Refused as refusal:
            raise failure("to delete a security group", refusal) from refusal

    async def _of(self, container_uuid: str) -> list[Row]:
        rows = await self._api.find("security-groups", name=_name(container_uuid))
        ours = [row for row in rows if (row.get("description") or "").startswith(MARK)]
        return sorted(ours, key=lambda row: (row.get("created_at") or "", row["id"]))

    async def _delete(self, group_id: str) -> None:
        for pause in (*_PAUSES, None):
            try:
                await self._api.delete("security-groups", group_id)
                return
            except Refused as refusal:
                if refusal.status != 409:
                    raise
                if pause is None:
                    LOG.warning("action=security-group group=%s result=kept reason=%s", group_id, refusal.message)
                    return  # the user has given it to ports of others
            await asyncio.sleep(pause)


def _name(container_uuid: str) -> str:
    return f"zun-{container_uuid}"


def _body(container: Container) -> Row:
    description = f"{MARK} {container.uuid}"
    return {"name": _name(container.uuid), "description": description, "project_id": container.project_id}


def _rules(container: Container, group_id: str) -> Iterator[dict[str, Any]]:
    for exposed in container.exposed_ports or ():
        number, _, protocol = exposed.partition("/")
        for version in ("IPv4", "IPv6"):
            yield {
                "security_group_id": group_id,
                "project_id": container.project_id,
                "direction": "ingress",
                "ethertype": version,
                "protocol": protocol,
                "port_range_min": int(number),
                "port_range_max": int(number),
            }


def _key(rule: Row) -> tuple[Any, ...]:
    return rule["ethertype"], rule["protocol"], rule["port_range_min"], rule["port_range_max"]
