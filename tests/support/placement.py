"""The testbed's Placement: our adapter on it, and the same service seen from outside. Leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.support.api import configure
from zun.openstack.client import Answer, Refused, ServiceClient
from zun.openstack.cloud import OpenStack
from zun.placement.openstack import OpenStackPlacement

PORT = 8778
KEYSTONE = "http://127.0.0.1:35357/v3"
ACCOUNT = {
    "keystone_authtoken.auth_url": KEYSTONE,
    "keystone_authtoken.auth_type": "password",
    "keystone_authtoken.username": "zun",
    "keystone_authtoken.password": "testbed",
    "keystone_authtoken.project_name": "service",
    "keystone_authtoken.user_domain_id": "default",
    "keystone_authtoken.project_domain_id": "default",
}
"""Our own account in the testbed."""


@dataclass
class Outside:
    """Placement as an operator sees it; ``remove`` deletes what a deployment, or this object, made."""

    client: ServiceClient
    made: list[str] = field(default_factory=list)

    async def ask(self, method: str, path: str, **options: Any) -> Any:
        """The body; raises Refused."""
        return (await self.client.request(method, path, **options)).body

    async def answer(self, method: str, path: str, **options: Any) -> Answer:
        """Refusals are answers too."""
        try:
            return await self.client.request(method, path, **options)
        except Refused as refusal:
            return Answer(refusal.status, {}, refusal.body)

    async def provider(self, name: str, **totals: int) -> str:
        """A provider that is not ours, with inventories; its uuid."""
        uuid = str(uuid4())
        await self.ask("POST", "/resource_providers", json={"uuid": uuid, "name": name})
        self.made.append(uuid)
        body = {
            "resource_provider_generation": 0,
            "inventories": {key: {"total": total, "max_unit": total} for key, total in totals.items()},
        }
        await self.ask("PUT", f"/resource_providers/{uuid}/inventories", json=body)
        return uuid

    async def allocate(self, consumer: str, provider: str, consumer_type: str, **resources: int) -> None:
        """As another service does."""
        body = {
            "allocations": {provider: {"resources": resources}},
            "project_id": "nova",
            "user_id": "nova",
            "consumer_generation": None,
            "consumer_type": consumer_type,
        }
        await self.ask("PUT", f"/allocations/{consumer}", json=body)

    async def inventories(self, uuid: str) -> Mapping[str, Mapping[str, Any]]:
        found: Mapping[str, Mapping[str, Any]] = (await self.ask("GET", f"/resource_providers/{uuid}/inventories"))[
            "inventories"
        ]
        return found

    async def traits(self, uuid: str) -> set[str]:
        return set((await self.ask("GET", f"/resource_providers/{uuid}/traits"))["traits"])

    async def remove(self, deployment_id: str | None = None) -> None:
        """Allocations and providers."""
        uuids = list(self.made)
        if deployment_id:
            found = await self.ask("GET", "/resource_providers", params={"member_of": deployment_id})
            uuids += [one["uuid"] for one in found["resource_providers"]]
        for uuid in uuids:
            held = await self.answer("GET", f"/resource_providers/{uuid}/allocations")
            if held.status == 404:
                continue
            await asyncio.gather(
                *(self.answer("DELETE", f"/allocations/{consumer}") for consumer in held.body["allocations"])
            )
            await self.answer("DELETE", f"/resource_providers/{uuid}")
        self.made.clear()


@dataclass
class Deployment:
    """An adapter with a deployment id of its own."""

    placement: OpenStackPlacement
    outside: Outside
    id: str
    cloud: OpenStack
    conf: Any


@asynccontextmanager
async def deployment(folder: Path, options: Mapping[str, Any] | None = None) -> AsyncIterator[Deployment]:
    """``options`` for the adapter's client; the outside view is always direct. ``folder`` exists."""
    conf = await asyncio.to_thread(configure, folder, {**ACCOUNT, **(options or {})})
    ours, direct = OpenStack(conf), OpenStack(await asyncio.to_thread(configure, folder, ACCOUNT))
    uuid = str(uuid4())
    outside = Outside(direct.placement)
    try:
        yield Deployment(OpenStackPlacement(ours.placement, deployment_id=uuid), outside, uuid, ours, conf)
    finally:
        await outside.remove(uuid)
        await ours.close()
        await direct.close()
