"""Images through CRI. Whether a registry has one is asked of the registry itself: CRI has no such call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import grpc.aio

from zun.domain.errors import (
    EngineError,
    EngineNotFound,
    EngineUnreachable,
    ImageFailed,
    ImagePullFailed,
    InvalidValue,
)
from zun.domain.image import parse_reference
from zun.runtime import registry_api
from zun.runtime.base import ImageFacts, PullProgress, RegistryAuth
from zun.runtime.cri import facts
from zun.runtime.cri.client import CriClient
from zun.runtime.cri.errors import words
from zun.runtime.cri.pull_meter import watch
from zun.runtime.docker_errors import pull_failure

_LONGEST_PULL = 24 * 3600.0
"""Seconds. The caller watches the progress; this only ends what nobody waits for any more."""
_REMEMBERED = 512


class CriImages:
    """Images of the engine."""

    def __init__(self, client: CriClient) -> None:
        self._client = client
        self._configs: dict[str, facts.ImageConfig] = {}

    async def find(self, reference: str) -> ImageFacts | None:
        answer = await self._client.call("ImageStatus", image={"image": reference}, verbose=True)
        return facts.image_facts(answer) if answer.HasField("image") else None

    async def config(self, image_id: str) -> facts.ImageConfig:
        """Of an image by its id, which never has another one; remembered also when the image is gone."""
        known = self._configs.get(image_id)
        if known is None:
            answer = await self._client.call("ImageStatus", image={"image": image_id}, verbose=True)
            if not answer.HasField("image"):
                return facts.ImageConfig()
            if len(self._configs) >= _REMEMBERED:
                self._configs.clear()
            known = self._configs[image_id] = facts.image_config(answer)
        return known

    async def pull(
        self, reference: str, auth: RegistryAuth | None, progress: Callable[[PullProgress], None]
    ) -> ImageFacts:
        """As the port says. CRI tells nothing until it is done: ``progress`` hears of the engine's downloads, those of
        other images pulled at the time included, and of its unpacking."""
        try:
            parse_reference(reference)
        except InvalidValue as error:
            raise ImageFailed(f"Image {reference} is not a valid reference: {error}") from error
        watching = asyncio.create_task(watch(self._client, progress), name=f"pull-{reference}")
        try:
            await self._client.raw("PullImage", _LONGEST_PULL, image={"image": reference}, auth=_auth(reference, auth))
        except grpc.aio.AioRpcError as error:
            raise self._pull_failed(reference, error) from error
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
        found = await self.find(reference)
        if found is None:
            raise ImagePullFailed(f"Error on pulling image: {reference}: it was gone when the pull had ended")
        return found

    async def has_remote(self, reference: str, auth: RegistryAuth | None) -> bool:
        known = await self._client.connect()
        return await registry_api.has_image(reference, auth, hosts=known.registry_config)

    async def remove(self, reference: str) -> None:
        """CRI removes all names of the image with the one that is given; members that run go on."""
        try:
            await self._client.call("RemoveImage", image={"image": reference})
        except EngineNotFound:
            return

    def _pull_failed(self, reference: str, error: Any) -> EngineError | ImageFailed:
        translated = self._client.translated(error)
        if isinstance(translated, EngineUnreachable) and error.code() is grpc.StatusCode.UNAVAILABLE:
            return translated
        return pull_failure(reference, 500, words(error))


def _auth(reference: str, auth: RegistryAuth | None) -> dict[str, str] | None:
    if auth is None:
        return None
    # With the address the engine gives the password to that registry only, not to a mirror of it.
    domain = registry_api.host_of(parse_reference(reference).domain)
    return {"username": auth.username, "password": auth.password, "server_address": f"https://{domain}"}
