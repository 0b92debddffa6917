"""Images of any OCI registry, pulled by the engine. Runs in zun-compute.

One pull serves all who want the same image with the same credentials (``flights.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zun.domain.caller import Caller
from zun.domain.clock import Clock
from zun.domain.errors import EngineError, EngineUnreachable, ImageFailed, Invalid, InvalidValue, ServiceUnavailable
from zun.domain.image import ImageReference, asked_reference
from zun.image import registry_search
from zun.image.base import ImageRequest
from zun.image.flights import Flights, Progress, Transfer
from zun.runtime.base import ImageFacts, RegistryAuth, Runtime
from zun.runtime.pods import Pods

_DOCKER_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})


class RegistryImages:
    """``zun.image.base.Images`` over the runtime's own pull."""

    name = "docker"

    def __init__(self, runtime: Runtime | Pods, conf: Any, clock: Clock) -> None:
        self._runtime = runtime
        self._conf = conf.docker
        self._flights = Flights(conf.docker, clock)

    async def resolve(self, caller: Caller, reference: str) -> None:
        """Registries have no ids; a malformed reference is told at once."""
        asked_reference(reference)

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
        pull = Transfer(
            key=(reference, auth),
            image=reference,
            failed=f"Error on pulling image: {reference}",
            attempt=lambda tell: self._runtime.pull(reference, auth, tell),
        )
        return await self._flights.join(pull, progress)

    def engine_name(self, request: ImageRequest) -> str:
        return self._resolve(request)[0]

    async def exists(self, request: ImageRequest) -> bool:
        """In the engine when the pull policy is content with that, else in the registry."""
        reference, auth = self._resolve(request)
        if request.pull_policy != "always" and await self._runtime.image(reference) is not None:
            return True
        return request.pull_policy != "never" and await self._runtime.has_remote_image(reference, auth)

    async def forget(self, request: ImageRequest) -> None:
        reference, _ = self._resolve(request)
        await self._runtime.remove_image(reference)

    async def search(self, caller: Caller | None, text: str, *, exact: bool) -> Sequence[Mapping[str, Any]]:
        """In the registry that the name, or else ``[docker]/default_registry``, names; without either, where the
        engine itself searches."""
        parsed = asked_reference(text)
        named = parsed.domain is not None
        parsed = parsed.in_registry(self._conf.default_registry)
        if parsed.domain is None:
            return await self._search_engine(text, exact=exact)
        try:
            names = await registry_search.search(parsed, self._auth(parsed, None), exact=exact)
        except ServiceUnavailable as error:
            if named:  # the caller's choice
                raise Invalid(error.message) from error
            raise
        return [_found(f"{parsed.domain}/{name}" if named else name) for name in names]

    async def _search_engine(self, text: str, *, exact: bool) -> Sequence[Mapping[str, Any]]:
        search = getattr(self._runtime, "search_images", None)
        if search is None:
            raise ServiceUnavailable("The engine's registry", "this engine searches none")
        try:
            rows = await search(text)
        except EngineUnreachable:
            raise
        except EngineError as error:
            raise ServiceUnavailable("The engine's registry", error.text) from error
        return [_found(str(row["name"]), row) for row in rows if not exact or row["name"] == text]

    def _resolve(self, request: ImageRequest) -> tuple[str, RegistryAuth | None]:
        """The full reference, and the credentials for its registry only: a password goes nowhere else."""
        try:
            parsed = asked_reference(request.reference)
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


def _found(name: str, facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One repository, in the shape that clients know from Docker Hub."""
    given = facts or {}
    return {
        "name": name,
        "description": given.get("description") or "",
        "is_automated": bool(given.get("is_automated")),
        "metadata": {
            "is_official": bool(given.get("is_official")),
            "star_count": int(given.get("star_count") or 0),
        },
    }


def _domain(server: str) -> str:
    """A registry's address as references spell it: ``https://host:port/`` -> ``host:port``."""
    bare = server.partition("://")[2] or server
    host = bare.partition("/")[0].lower()
    return "docker.io" if host in _DOCKER_HUB else host
