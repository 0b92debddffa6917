"""Calls of Glance's Image API v2, and its records as plain data."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

from zun.openstack.client import Refused, ServiceClient

CONTAINER_FORMAT = "docker"
DISK_FORMAT = "raw"
"""Of what we store. Glance looks into the data, and refuses an archive that is said to be a disk of some format."""
PIECE = 256 * 1024
_PAGE = "200"
_MOST_PAGES = 50


@dataclass(frozen=True, slots=True)
class Record:
    """One image as Glance has it. ``size`` in bytes, 0 = not known."""

    uuid: str
    name: str
    owner: str
    status: str
    container_format: str
    tags: Sequence[str]
    size: int
    hash_algorithm: str
    hash_value: str
    body: Mapping[str, Any]
    """As Glance gave it."""

    @property
    def usable(self) -> bool:
        """Has it its data?"""
        return self.status == "active"


def is_id(text: str) -> bool:
    """Does ``text`` look like an image's id?"""
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


class GlanceApi:
    """``token`` None: our own account. All methods raise Refused and ServiceUnavailable."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client

    async def get(self, uuid: str, token: str | None = None) -> Record | None:
        """One image; None when there is none, or not for the one who asks."""
        try:
            answer = await self._client.request("GET", f"/v2/images/{uuid}", token=token)
        except Refused as error:
            if error.status in (403, 404):
                return None
            raise
        return _record(answer.body)

    async def named(self, name: str, tag: str | None, token: str | None) -> Sequence[Record]:
        """Container images with exactly this name, and the tag if one is given."""
        filters = [("name", f"eq:{name}")]  # without it, what stands before a colon would be the operator
        if tag is not None:
            filters.append(("tag", tag))
        return [record async for record in self._pages(filters, token) if record.name == name]

    async def all(self, token: str | None) -> Sequence[Record]:
        """Every container image that the one who asks can use."""
        return [record async for record in self._pages([], token)]

    async def create(self, body: Mapping[str, Any], token: str | None) -> None:
        """Record an image without data."""
        # Asked twice it is refused the second time (409), which would hide that the first try worked.
        await self._client.request("POST", "/v2/images", json=body, token=token, repeat=False)

    async def delete(self, uuid: str) -> None:
        """Absent is success."""
        try:
            await self._client.request("DELETE", f"/v2/images/{uuid}")
        except Refused as error:
            if error.status not in (404, 410):
                raise

    @asynccontextmanager
    async def data(self, uuid: str, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The image's data, as it comes; ``idle`` seconds without a byte end it."""
        async with self._client.stream("GET", f"/v2/images/{uuid}/file", idle=idle) as response:
            yield response.content.iter_chunked(PIECE)

    async def put_data(self, uuid: str, pieces: AsyncIterator[bytes], idle: float) -> None:
        """Send the image's data; pieces of more than 8 MiB are more than some servers take."""
        headers = {"Content-Type": "application/octet-stream"}
        async with self._client.stream("PUT", f"/v2/images/{uuid}/file", data=pieces, headers=headers, idle=idle):
            return

    async def _pages(self, filters: Sequence[tuple[str, str]], token: str | None) -> AsyncIterator[Record]:
        wanted = [*filters, ("container_format", CONTAINER_FORMAT), ("limit", _PAGE), ("sort", "created_at:desc")]
        for _ in range(_MOST_PAGES):
            answer = await self._client.request("GET", "/v2/images", params=wanted, token=token)
            for body in answer.body["images"]:
                yield _record(body)
            following = answer.body.get("next")
            if not following:
                return
            wanted = parse_qsl(urlsplit(following).query)


def _record(body: Mapping[str, Any]) -> Record:
    algorithm, value = body.get("os_hash_algo") or "", body.get("os_hash_value") or ""
    if not (algorithm and value):
        algorithm, value = ("md5", body["checksum"]) if body.get("checksum") else ("", "")
    return Record(
        uuid=str(body["id"]),
        name=body.get("name") or "",
        owner=body.get("owner") or "",
        status=str(body.get("status") or ""),
        container_format=body.get("container_format") or "",
        tags=tuple(body.get("tags") or ()),
        size=int(body.get("size") or 0),
        hash_algorithm=str(algorithm),
        hash_value=str(value),
        body=body,
    )
