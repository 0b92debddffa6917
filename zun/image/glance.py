"""Images of Glance: found in the API with the caller's token, fetched by the node with our own account.

An image in the engine has the name ``glance.invalid/<id>:latest`` and no other, so that images of one name (or with the
same tags inside) never mix, and nothing in an archive can take the place of another image. What Glance has under
an id never changes; an image that is in the engine is not fetched again. Runs in zun-api and zun-compute.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from zun.domain.caller import Caller
from zun.domain.clock import Clock
from zun.domain.errors import (
    Conflict,
    EngineError,
    EngineUnreachable,
    Forbidden,
    ImageFailed,
    ImageNotFound,
    ImagePullFailed,
    ServiceUnavailable,
)
from zun.domain.image import LOADED
from zun.image.base import ImageRequest
from zun.image.flights import Flights, Progress, Transfer
from zun.image.glance_api import CONTAINER_FORMAT, GlanceApi, Record, is_id
from zun.openstack.client import Refused, ServiceClient
from zun.runtime.base import ImageFacts, PullProgress, Runtime

LOG = logging.getLogger(__name__)


def engine_name(uuid: str) -> str:
    """What the image with this id is called in the engine."""
    return f"{LOADED}/{uuid}:latest"


class GlanceImages:
    """``zun.image.base.Images`` over Glance's Image API v2."""

    name = "glance"

    def __init__(self, client: ServiceClient, runtime: Runtime, conf: Any, clock: Clock) -> None:
        self._api = GlanceApi(client)
        self._runtime = runtime
        self._idle = float(conf.docker.pull_stall_timeout)
        self._flights = Flights(conf.docker, clock)

    # -- in the API, for the caller --------------------------------------------------------------

    async def resolve(self, caller: Caller, reference: str) -> str:
        """By id, by exact name, or by ``name:tag`` with a tag of Glance. Of several with one name: those with
        their data, the project's own, the one with the tag ``latest``; still several is a Conflict."""
        try:
            found = await self._find(caller, reference)
        except Refused as error:
            raise _refused(error) from error
        return found.uuid

    async def search(self, caller: Caller | None, text: str, *, exact: bool) -> Sequence[Mapping[str, Any]]:
        """Glance's own records."""
        token = caller.token if caller else None
        try:
            if is_id(text):
                one = await self._api.get(text.lower(), token)
                return [one.body] if one is not None and one.container_format == CONTAINER_FORMAT else []
            if exact:
                return [record.body for record in await self._api.named(text, None, token)]
            return [record.body for record in await self._api.all(token) if text in record.name]
        except Refused as error:
            raise _refused(error) from error

    async def _find(self, caller: Caller, reference: str) -> Record:
        if is_id(reference):
            record = await self._api.get(reference.lower(), caller.token)
            if record is None:
                raise ImageNotFound(f"Image {reference} could not be found.")
            if record.container_format != CONTAINER_FORMAT:
                raise ImageNotFound(
                    f"Image {reference} is no container image: its container_format is"
                    f" '{record.container_format}', not '{CONTAINER_FORMAT}'."
                )
            return _usable(reference, [record])[0]
        found = await self._api.named(reference, None, caller.token)
        name, colon, tag = reference.rpartition(":")
        if not found and colon and name:
            found = await self._api.named(name, tag, caller.token)
        if not found:
            raise ImageNotFound(f"Image {reference} could not be found.")
        return _one(reference, _usable(reference, found), caller)

    # -- on the node -----------------------------------------------------------------------------

    async def ensure(self, request: ImageRequest, progress: Progress) -> ImageFacts:
        """See the port; ``always`` and ``ifnotpresent`` are the same here. Raises ImageFailed, its kind
        ImagePullFailed when Glance did not answer."""
        name, uuid = self.engine_name(request), str(request.uuid)
        found = await self._runtime.image(name)
        if found is not None:
            return found
        if request.pull_policy == "never":
            raise ImageFailed(f"Image {request.reference} not present with pull policy of Never")
        failed = f"Cannot download image from glance: {request.reference}"
        transfer = Transfer(uuid, f"glance:{uuid}", failed, lambda tell: self._fetch(uuid, failed, tell))
        return await self._flights.join(transfer, progress)

    def engine_name(self, request: ImageRequest) -> str:
        if request.uuid is None:
            raise ImageFailed(f"Image {request.reference} has no id of Glance on record; rebuild with an image.")
        return engine_name(request.uuid)

    async def exists(self, request: ImageRequest) -> bool:
        """The API asked with the caller's token before; here it is about the data."""
        if request.uuid is None:
            return False
        if await self._runtime.image(engine_name(request.uuid)) is not None:
            return True
        if request.pull_policy == "never":
            return False
        try:
            record = await self._api.get(request.uuid)
        except ServiceUnavailable as error:
            raise ImagePullFailed(error.message) from error
        except Refused as error:
            raise ImageFailed(str(error)) from error
        return record is not None and record.usable

    async def forget(self, request: ImageRequest) -> None:
        if request.uuid is not None:
            await self._runtime.remove_image(engine_name(request.uuid))

    async def _fetch(self, uuid: str, failed: str, tell: Progress) -> ImageFacts:
        """Record, data, engine; each fault in words that say which of them it was."""
        try:
            record = await self._api.get(uuid)
            if record is None:
                raise ImageFailed(f"{failed}: Glance has no image {uuid}")
            if not record.usable:
                raise ImageFailed(f"{failed}: its status in Glance is {record.status}")
            # aclosing: a load that fails gives the connection back at once.
            async with aclosing(self._checked(record, failed, tell)) as data:
                return await self._runtime.load_image(engine_name(uuid), data, tell)
        except ServiceUnavailable as error:
            raise ImagePullFailed(f"{failed}: {error.message}") from error
        except Refused as error:
            raise ImageFailed(f"{failed}: {error}") from error
        except ImageFailed as error:
            if error.message.startswith(failed):
                raise
            raise type(error)(f"{failed}: {error.message}") from error
        except EngineUnreachable:
            raise
        except EngineError as error:
            raise ImageFailed(f"{failed}: {error.message}") from error

    async def _checked(self, record: Record, failed: str, tell: Progress) -> AsyncGenerator[bytes, None]:
        """The image's data; what is not what Glance has recorded ends with ImagePullFailed."""
        digest, done = _digest(record), 0
        async with self._api.data(record.uuid, self._idle) as pieces:
            async for piece in pieces:
                done += len(piece)
                if digest is not None:
                    digest.update(piece)
                tell(PullProgress(done, record.size, "Downloading"))
                yield piece
        if record.size and done != record.size:
            raise ImagePullFailed(f"{failed}: {done} bytes came of {record.size}")
        if digest is not None and digest.hexdigest() != record.hash_value:
            raise ImagePullFailed(f"{failed}: its {record.hash_algorithm} checksum is not the one in Glance")


def _digest(record: Record) -> Any:
    """None: Glance has no checksum that we can make."""
    try:
        return hashlib.new(record.hash_algorithm, usedforsecurity=False) if record.hash_value else None
    except ValueError:
        LOG.warning("action=pull image=glance:%s result=checksum %s unknown", record.uuid, record.hash_algorithm)
        return None


def _usable(reference: str, found: Sequence[Record]) -> Sequence[Record]:
    usable = [record for record in found if record.usable]
    if not usable:
        raise ImageNotFound(f"Image {reference} cannot be used: its status in Glance is {found[0].status}.")
    return usable


def _one(reference: str, found: Sequence[Record], caller: Caller) -> Record:
    own = [one for one in found if caller.project_id and one.owner == caller.project_id]
    choice = own or found
    if len(choice) > 1:
        choice = [one for one in choice if "latest" in one.tags] or choice
    if len(choice) > 1:
        raise Conflict(f"Multiple images exist with same name {reference}. Please use the image id instead.")
    return choice[0]


def _refused(error: Refused) -> Forbidden | Conflict | ImageNotFound:
    """Glance's refusal of the caller's own request."""
    if error.status in (401, 403):
        return Forbidden(f"Glance refuses the request: {error.message}")
    if error.status == 409:
        return Conflict(f"Glance refuses the request: {error.message}")
    return ImageNotFound(f"Glance refuses the request: {error.message}")
