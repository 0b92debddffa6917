"""Images of containers, kept in Glance: on record at once with the user's rights, their data later with ours."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from zun.domain.caller import Caller
from zun.domain.clock import Clock
from zun.domain.errors import Conflict, Forbidden, ImageStoreFailed, Invalid, ServiceUnavailable
from zun.image.base import NewImage
from zun.image.flights import Progress, unless_stalled
from zun.image.glance_api import CONTAINER_FORMAT, DISK_FORMAT, PIECE, GlanceApi
from zun.openstack.client import Refused, ServiceClient
from zun.runtime.base import PullProgress

LOG = logging.getLogger(__name__)

Archive = AbstractAsyncContextManager[AsyncIterator[bytes]]

_PASSING = frozenset({401, 408, 409})
"""Refusals that may pass: a token of ours that just ended, an upload that was cut off and is not yet given up."""


class GlanceStore:
    """``zun.image.base.ImageStore`` over Glance."""

    def __init__(self, client: ServiceClient, conf: Any, clock: Clock) -> None:
        self._api = GlanceApi(client)
        self._idle = float(conf.docker.pull_stall_timeout)
        self._clock = clock

    async def announce(self, caller: Caller, image: NewImage) -> None:
        """The record, private to the caller's project, with the tag as Glance's tag. See the port."""
        body = {
            "id": image.uuid,
            "name": image.repository,
            "tags": [image.tag],
            "container_format": CONTAINER_FORMAT,
            "disk_format": DISK_FORMAT,
            "visibility": "private",
        }
        try:
            await self._api.create(body, caller.token)
        except Refused as error:
            text = f"Glance refuses the image: {error.message}"
            if error.status in (401, 403, 413):
                raise Forbidden(text) from error
            if error.status == 409:
                raise Conflict(text) from error
            raise Invalid(text) from error

    async def upload(self, image: NewImage, archive: Archive, progress: Callable[[PullProgress], None]) -> None:
        """Sent piece by piece, then compared with what Glance says it has. See the port."""
        try:
            record = await self._api.get(image.uuid)
            if record is None:
                raise ImageStoreFailed(f"Image {image.uuid} is no longer in Glance.")
            if record.usable:
                return
            if record.status != "queued":
                raise ServiceUnavailable("Glance", f"image {image.uuid} has the status {record.status}")
            await self._send(image, archive, progress)
        except Refused as error:
            if error.status in _PASSING:
                raise ServiceUnavailable("Glance", error.message) from error
            raise ImageStoreFailed(f"Glance refuses the data of image {image.uuid}: {error.message}") from error

    async def _send(self, image: NewImage, archive: Archive, progress: Progress) -> None:
        sent = _Sent()

        async def attempt(tell: Progress) -> None:
            async with archive as pieces:
                sent.fault = None
                try:
                    await self._api.put_data(image.uuid, sent.passing(pieces, tell), self._idle)
                except (ServiceUnavailable, Refused):
                    if sent.fault is not None:  # it is not Glance that broke off
                        raise sent.fault from None
                    raise

        failed = f"Cannot upload image {image.uuid} to Glance"
        await unless_stalled(attempt, progress, self._idle, failed, self._clock)
        record = await self._api.get(image.uuid)
        if record is None or not record.usable:
            state = record.status if record else "deleted"
            raise ImageStoreFailed(f"Image {image.uuid} is {state} in Glance after its upload.")
        if record.hash_algorithm == sent.digest.name and record.hash_value != sent.digest.hexdigest():
            raise ImageStoreFailed(f"Image {image.uuid} has another checksum in Glance than what was sent.")
        LOG.info("action=upload image=%s bytes=%d result=ok", image.uuid, sent.size)

    async def discard(self, uuid: str) -> None:
        record = await self._own(uuid)
        if record is not None and record.usable:
            return
        try:
            await self._api.delete(uuid)
        except Refused as error:
            raise ServiceUnavailable("Glance", f"image {uuid} is not deleted: {error.message}") from error

    async def _own(self, uuid: str) -> Any:
        try:
            return await self._api.get(uuid)
        except Refused as error:
            raise ServiceUnavailable("Glance", f"image {uuid} cannot be read: {error.message}") from error


class _Sent:
    """What was sent, and why no more was."""

    def __init__(self) -> None:
        self.digest = hashlib.sha512(usedforsecurity=False)
        self.size = 0
        self.fault: Exception | None = None

    async def passing(self, pieces: AsyncIterator[bytes], tell: Progress) -> AsyncIterator[bytes]:
        try:
            async for piece in pieces:
                for start in range(0, len(piece), PIECE):  # some servers take chunks of a few MiB only
                    part = piece[start : start + PIECE]
                    self.digest.update(part)
                    self.size += len(part)
                    tell(PullProgress(self.size, 0, "Uploading"))
                    yield part
        except Exception as error:
            self.fault = error
            raise
