"""Cinder's REST calls that we need, as plain functions of values. Refusals come out as ``Refused``, an absent thing as
None; everything else that goes wrong is ServiceUnavailable naming Cinder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zun.openstack.client import Refused, ServiceClient

TENANT = "os-vol-tenant-attr:tenant_id"
_PAGE = 500
DRIVER_SECONDS = 120.0
"""Longest wait for a call in which Cinder asks the storage itself."""


@dataclass(frozen=True, slots=True)
class Volume:
    """What Cinder says of a volume. ``size`` in GiB; ``attachments``: container or server uuid -> host; ``backend``:
    whose connections to one host must follow each other, None when they need not."""

    id: str
    status: str
    size: int
    project_id: str | None
    multiattach: bool
    encrypted: bool
    attachments: Mapping[str, str | None]
    metadata: Mapping[str, str]
    backend: str | None


@dataclass(frozen=True, slots=True)
class Attachment:
    """One user's hold on a volume. ``status``: reserved, attaching, attached; ``connection`` may hold secrets."""

    id: str
    status: str
    instance: str | None
    connection: Mapping[str, Any] = field(default_factory=dict, repr=False)
    volume_id: str = ""


class CinderApi:
    """By our own account unless a caller's token is given."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client

    # -- volumes -----------------------------------------------------------------------------------

    async def volume(self, volume_id: str, token: str | None = None) -> Volume | None:
        """None when there is no such volume for whom the token speaks."""
        body = await self._get(f"/volumes/{volume_id}", token=token)
        return None if body is None else _volume(body["volume"])

    async def named(self, name: str, token: str | None = None, *, everywhere: bool = False) -> Sequence[Volume]:
        """Volumes of exactly that name, a few at most: of the token's project, or ``everywhere``."""
        params = {"name": name, "limit": "10"} | ({"all_tenants": "1"} if everywhere else {})
        body = await self._get("/volumes/detail", params=params, token=token)
        return [_volume(found) for found in (body or {}).get("volumes", ()) if found.get("name") == name]

    async def create_volume(self, name: str, size_gib: int, metadata: Mapping[str, str], token: str | None) -> str:
        """A new volume's id. Sent once: what became of a call without answer is found by its name."""
        wanted = {"volume": {"name": name, "size": size_gib, "metadata": dict(metadata)}}
        answer = await self._client.request("POST", "/volumes", json=wanted, token=token)
        return str(answer.body["volume"]["id"])

    async def delete_volume(self, volume_id: str) -> None:
        """Asks for it; absent is success."""
        await self._gone("DELETE", f"/volumes/{volume_id}")

    async def begin_detaching(self, volume_id: str) -> None:
        """``in-use`` becomes ``detaching``."""
        await self._action(volume_id, "os-begin_detaching")

    async def roll_detaching(self, volume_id: str) -> None:
        """``detaching`` becomes ``in-use``; any other status stays."""
        await self._action(volume_id, "os-roll_detaching")

    async def _action(self, volume_id: str, name: str) -> None:
        await self._client.request("POST", f"/volumes/{volume_id}/action", json={name: {}}, repeat=True)

    # -- attachments -------------------------------------------------------------------------------

    async def attachments(self, volume_id: str, instance: str | None = None) -> Sequence[Attachment]:
        """Of a volume, of one user if given; without their connections."""
        params = {"volume_id": volume_id, "all_tenants": "1"} | ({"instance_id": instance} if instance else {})
        body = await self._get("/attachments", params=params)
        return [_attachment(found) for found in (body or {}).get("attachments", ())]

    async def all_attachments(self) -> Sequence[Attachment]:
        """Of everybody, page by page; without their connections."""
        found: list[Attachment] = []
        params = {"all_tenants": "1", "limit": str(_PAGE)}
        while True:
            body = await self._get("/attachments", params=params)
            page = [_attachment(one) for one in (body or {}).get("attachments", ())]
            found += page
            if len(page) < _PAGE:
                return found
            params["marker"] = page[-1].id

    async def attachment(self, attachment_id: str) -> Attachment | None:
        """With its connection."""
        body = await self._get(f"/attachments/{attachment_id}")
        return None if body is None else _attachment(body["attachment"])

    async def create_attachment(self, volume_id: str, instance: str) -> Attachment:
        """Reserve the volume for ``instance``; the storage is not asked yet. Sent once."""
        wanted = {"volume_uuid": volume_id, "instance_uuid": instance, "connector": None}
        answer = await self._client.request("POST", "/attachments", json={"attachment": wanted})
        return _attachment(answer.body["attachment"])

    async def update_attachment(self, attachment_id: str, connector: Mapping[str, Any]) -> Attachment:
        """Open the storage to the host that ``connector`` describes; may be asked again."""
        wanted = {"attachment": {"connector": dict(connector)}}
        path = f"/attachments/{attachment_id}"
        answer = await self._client.request("PUT", path, json=wanted, timeout=DRIVER_SECONDS)
        return _attachment(answer.body["attachment"])

    async def complete_attachment(self, attachment_id: str) -> None:
        """The volume is in use now."""
        path = f"/attachments/{attachment_id}/action"
        await self._client.request("POST", path, json={"os-complete": {}}, repeat=True)

    async def delete_attachment(self, attachment_id: str) -> None:
        """Close the storage to the host and let go of the volume; absent is success."""
        await self._gone("DELETE", f"/attachments/{attachment_id}", timeout=DRIVER_SECONDS)

    async def _get(self, path: str, **named: Any) -> Any:
        try:
            return (await self._client.request("GET", path, **named)).body
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    async def _gone(self, method: str, path: str, **named: Any) -> None:
        try:
            await self._client.request(method, path, **named)
        except Refused as refused:
            if refused.status != 404:
                raise


def _volume(body: Mapping[str, Any]) -> Volume:
    return Volume(
        id=str(body["id"]),
        status=str(body["status"]),
        size=int(body["size"]),
        project_id=body.get(TENANT),
        multiattach=bool(body.get("multiattach")),
        encrypted=bool(body.get("encrypted")),
        attachments={str(held["server_id"]): held.get("host_name") for held in body.get("attachments", ())},
        metadata=body.get("metadata") or {},
        backend=body.get("service_uuid") if body.get("shared_targets") else None,
    )


def _attachment(body: Mapping[str, Any]) -> Attachment:
    return Attachment(
        id=str(body["id"]),
        status=str(body["status"]),
        instance=body.get("instance"),
        connection=body.get("connection_info") or {},
        volume_id=str(body.get("volume_id") or ""),
    )
