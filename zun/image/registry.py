"""Images of any OCI registry, pulled by the engine. Runs in zun-compute.

One pull serves all who want the same image with the same credentials; a pull that stands still is given up and
tried again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from zun.domain.clock import Clock
from zun.domain.errors import ImageFailed, ImagePullFailed, InvalidValue
from zun.domain.image import ImageReference, parse_reference
from zun.image.base import ImageRequest
from zun.runtime.base import ImageFacts, PullProgress, RegistryAuth, Runtime

LOG = logging.getLogger(__name__)

Progress = Callable[[PullProgress], None]

_BACKOFF = 1.0
_LONGEST_BACKOFF = 30.0
_DOCKER_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})


@dataclass(slots=True, eq=False)
class _Pull:
    """One pull under way and who waits for it."""

    listeners: dict[object, Progress] = field(default_factory=dict)
    last: PullProgress | None = None
    task: asyncio.Task[ImageFacts] | None = None

    def tell(self, state: PullProgress) -> None:
        self.last = state
        for listener in list(self.listeners.values()):
            listener(state)


class RegistryImages:
    """``zun.image.base.Images`` over the runtime's own pull."""

    name = "docker"

    def __init__(self, runtime: Runtime, conf: Any, clock: Clock) -> None:
        self._runtime = runtime
        self._conf = conf.docker
        self._clock = clock
        self._pulls: dict[tuple[str, RegistryAuth | None], _Pull] = {}

    async def ensure(self, request: ImageRequest, progress: Progress) -> ImageFacts:
        """The image by its pull policy (S1.20). Raises ImageFailed (S1.28); its kind ImagePullFailed when the last
        try failed for something that may pass. EngineUnreachable goes through."""
        reference, auth = self._resolve(request)
        if request.pull_policy != "always":
            found = await self._runtime.image(reference)
            if found is not None:
                return found
            if request.pull_policy == "never":
                raise ImageFailed(f"Image {request.reference} not present with pull policy of Never")
        return await self._join(reference, auth, progress)

    async def exists(self, request: ImageRequest) -> bool:
        """In the engine when the pull policy is content with that, else in the registry."""
        reference, auth = self._resolve(request)
        if request.pull_policy != "always" and await self._runtime.image(reference) is not None:
            return True
        return request.pull_policy != "never" and await self._runtime.has_remote_image(reference, auth)

    def _resolve(self, request: ImageRequest) -> tuple[str, RegistryAuth | None]:
        """The full reference, and the credentials for its registry only: a password goes nowhere else."""
        try:
            parsed = parse_reference(request.reference)
        except InvalidValue as error:
            raise ImageFailed(f"Image {request.reference} is not a valid reference: {error.message}") from error
        if request.auth is not None and parsed.domain is None:
            parsed = parsed.in_registry(_domain(request.auth.server))
        parsed = parsed.in_registry(self._conf.default_registry)
        return str(parsed), self._auth(parsed, request.auth)

    def _auth(self, parsed: ImageReference, given: RegistryAuth | None) -> RegistryAuth | None:
        target = _domain(parsed.domain or "docker.io")
        if given is not None and _domain(given.server) == target:
            return given
        default, user = self._conf.default_registry, self._conf.default_registry_username
        if default and user and _domain(default) == target:
            return RegistryAuth(default, user, self._conf.default_registry_password or "")
        return None

    async def _join(self, reference: str, auth: RegistryAuth | None, progress: Progress) -> ImageFacts:
        key, me = (reference, auth), object()
        pull = self._pulls.get(key)
        if pull is None:
            pull = self._pulls[key] = _Pull()
            pull.task = asyncio.create_task(self._pull(reference, auth, pull.tell), name=f"pull {reference}")
            pull.task.add_done_callback(partial(self._forget, key, pull))
        elif pull.last is not None:
            progress(pull.last)
        pull.listeners[me] = progress
        assert pull.task is not None  # noqa: S101 - set when the pull was made
        try:
            # The wait may be cancelled, the pull not: others may wait for it too.
            await asyncio.wait({pull.task})
            return pull.task.result()
        finally:
            del pull.listeners[me]
            if not pull.listeners and not pull.task.done():
                self._pulls.pop(key, None)
                pull.task.cancel()
                LOG.info("action=pull image=%s result=cancelled", reference)

    def _forget(self, key: tuple[str, RegistryAuth | None], pull: _Pull, task: asyncio.Task[ImageFacts]) -> None:
        if self._pulls.get(key) is pull:
            del self._pulls[key]
        if not task.cancelled():
            task.exception()  # seen, though all who waited may be gone

    async def _pull(self, reference: str, auth: RegistryAuth | None, tell: Progress) -> ImageFacts:
        attempts = self._conf.pull_attempts
        for attempt in range(1, attempts + 1):
            try:
                facts = await self._attempt(reference, auth, tell)
            except ImagePullFailed as error:
                LOG.warning("action=pull image=%s attempt=%d/%d error=%s", reference, attempt, attempts, error.message)
                if attempt == attempts:
                    raise
            else:
                LOG.info("action=pull image=%s attempt=%d result=ok bytes=%d", reference, attempt, facts.size)
                return facts
            pause = min(_LONGEST_BACKOFF, _BACKOFF * 2 ** (attempt - 1))
            await self._clock.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
        raise ImagePullFailed(f"Error on pulling image: {reference}: no try was permitted")

    async def _attempt(self, reference: str, auth: RegistryAuth | None, tell: Progress) -> ImageFacts:
        """One pull of the engine; raises ImagePullFailed when it stands still for ``pull_stall_timeout``."""
        limit = float(self._conf.pull_stall_timeout)
        beat = self._clock.monotonic()

        def heard(state: PullProgress) -> None:
            nonlocal beat
            beat = self._clock.monotonic()
            tell(state)

        async def stalled() -> None:
            while (left := beat + limit - self._clock.monotonic()) > 0:
                await self._clock.sleep(left)

        work = asyncio.create_task(self._runtime.pull(reference, auth, heard))
        watch = asyncio.create_task(stalled())
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            raise ImagePullFailed(f"Error on pulling image: {reference}: no progress for {limit:g} seconds")
        finally:
            work.cancel()
            watch.cancel()
            await asyncio.gather(work, watch, return_exceptions=True)


def _domain(server: str) -> str:
    """A registry's address as references spell it: ``https://host:port/`` -> ``host:port``."""
    bare = server.partition("://")[2] or server
    host = bare.partition("/")[0].lower()
    return "docker.io" if host in _DOCKER_HUB else host
