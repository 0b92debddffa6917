"""Pulling through Docker: the credentials' header, and the lines of a pull as one progress."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any

from zun.domain.errors import EngineError, EngineUnreachable, ImageFailed, ImagePullFailed, InvalidValue
from zun.domain.image import parse_reference
from zun.runtime.base import PullProgress, RegistryAuth
from zun.runtime.docker_client import DockerClient, segment
from zun.runtime.docker_errors import pull_failure
from zun.runtime.docker_streams import json_lines

_DONE = frozenset({"Already exists", "Pull complete", "Download complete", "Verifying Checksum", "Extracting"})
_QUIET = ("Retrying in", "Waiting")
"""Lines that tell that nothing moves; they must not look like progress."""


class PullMeter:
    """Sums the layers of one pull. A layer that is there already has no size and counts as done."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[int, int]] = {}

    def take(self, line: Mapping[str, Any]) -> PullProgress | None:
        """The state after ``line``; None when the line is no advance."""
        status = str(line.get("status", ""))
        layer = line.get("id")
        if not status or status.startswith(_QUIET):
            return None
        if layer and not status.startswith("Pulling from"):
            self._layers[layer] = self._advance(self._layers.get(layer, (0, 0)), status, line)
        done = sum(done for done, _ in self._layers.values())
        return PullProgress(done, sum(total for _, total in self._layers.values()), status)

    @staticmethod
    def _advance(now: tuple[int, int], status: str, line: Mapping[str, Any]) -> tuple[int, int]:
        done, total = now
        if status == "Downloading":
            detail = line.get("progressDetail") or {}
            total = int(detail.get("total") or total)
            done = int(detail.get("current") or done)
            return (min(done, total) if total else done), total
        if status in _DONE:
            return total or done, total or done
        return now


def auth_header(auth: RegistryAuth | None) -> dict[str, str]:
    """``X-Registry-Auth``, or nothing."""
    if auth is None:
        return {}
    fields = {"username": auth.username, "password": auth.password, "serveraddress": auth.server}
    return {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(fields).encode()).decode()}


def pull_params(reference: str) -> dict[str, str]:
    """The query of Docker's pull call; raises ImageFailed for what is no reference."""
    try:
        parsed = parse_reference(reference)
    except InvalidValue as error:
        raise ImageFailed(f"Image {reference} is not a valid reference: {error}") from error
    return {"fromImage": parsed.name, "tag": parsed.digest or parsed.tag or "latest"}


async def pull(
    client: DockerClient, reference: str, auth: RegistryAuth | None, progress: Callable[[PullProgress], None]
) -> None:
    """Pull and return when the engine says it is there. ``progress`` hears each advance. Raises ImageFailed,
    ImagePullFailed, or EngineUnreachable when the engine did not answer at all."""
    params, headers, meter = pull_params(reference), auth_header(auth), PullMeter()
    begun = False
    try:
        async with client.stream("POST", "images/create", params=params, headers=headers) as content:
            begun = True
            async with aclosing(json_lines(content.iter_any())) as lines:
                async for line in lines:
                    if "errorDetail" in line or "error" in line:
                        raise _broken(reference, line)
                    state = meter.take(line)
                    if state is not None:
                        progress(state)
    except EngineUnreachable as error:
        if not begun:
            raise
        raise ImagePullFailed(f"Error on pulling image: {reference}: {error.text}") from error
    except EngineError as error:
        status = getattr(error.__cause__, "status", 500)
        raise pull_failure(reference, status, error.text) from error


async def has_remote_image(client: DockerClient, reference: str, auth: RegistryAuth | None) -> bool:
    """Does the registry answer with a manifest? Raises ImagePullFailed when it cannot tell."""
    try:
        await client.call("GET", f"distribution/{segment(reference)}/json", headers=auth_header(auth))
    except EngineUnreachable as error:
        if not isinstance(error.__cause__, TimeoutError):
            raise
        raise ImagePullFailed(
            f"Error on pulling image: {reference}: the engine had no answer of the registry within"
            f" {client.deadline:g} seconds"
        ) from error  # an engine that can be asked is waiting for somebody else
    except EngineError as error:
        failure = pull_failure(reference, getattr(error.__cause__, "status", 500), error.text)
        if isinstance(failure, ImagePullFailed):
            raise failure from error
        return False
    return True


def _broken(reference: str, line: Mapping[str, Any]) -> ImageFailed:
    detail = line.get("errorDetail") or {}
    return pull_failure(reference, int(detail.get("code") or 0), str(detail.get("message") or line.get("error") or ""))
