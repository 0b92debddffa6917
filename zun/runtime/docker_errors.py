"""What Docker's refusals mean in the port's words. Pure.

Texts of the engine are carried, never used as format strings.
"""

from __future__ import annotations

import re

from zun.domain.errors import (
    EngineConflict,
    EngineError,
    EngineNotFound,
    EngineUnreachable,
    ImageFailed,
    ImagePullFailed,
    PluginFailed,
    StartFailed,
)

_PLUGIN = re.compile(r"\b(?:Ipam|Network)Driver\.\w+: ")
"""Which call of its network plug-in the engine complains of. Once a connection broke it asks again without the body, so
the text that follows may be a complaint of the plug-in about that."""

_STATE_TEXTS = (
    "is not running",
    "not paused",
    "is paused",
    "already paused",
    "is restarting",
    "in use by container",
    "has active endpoints",
)

_MISSING = ("not found", "manifest unknown", "name unknown", "does not exist", "no matching manifest")
_REFUSED = (
    "denied",
    "unauthorized",
    "authentication required",
    "no basic auth credentials",
    "incorrect username or password",
    "forbidden",
)
_MALFORMED = ("invalid reference", "invalid repository", "invalid tag", "invalid checksum digest", "must be lowercase")
_UNUSABLE = (
    "x509:",
    "http response to https client",
    "unsupported",
    "no space left",
    "failed to register layer",
    "filesystem layer verification failed",
)
_TRANSPORT = (
    "no such host",
    "connection refused",
    "connection reset",
    "timeout",
    "deadline exceeded",
    "i/o ",
    "eof",
    "no route to host",
    "network is unreachable",
    "toomanyrequests",
    "temporary failure",
    "bad gateway",
    "service unavailable",
)


def refusal(status: int, text: str) -> EngineError:
    """The port's error for an HTTP refusal of the engine; ``text`` is its message."""
    text = text.strip() or f"HTTP status {status}"
    lower = text.lower()
    if status == 400 and "client version" in lower:
        return EngineUnreachable(text)
    if _PLUGIN.search(text):
        return PluginFailed(text)
    if status == 404:
        return EngineNotFound(text)
    if status == 409 or any(words in lower for words in _STATE_TEXTS):
        return EngineConflict(text)
    return EngineError(text)


def start_refusal(error: EngineError) -> EngineError:
    """A refused start: the container's own absence, its state, a plug-in's fault and silence keep their class, all else
    is StartFailed."""
    if isinstance(error, (EngineConflict, EngineUnreachable, PluginFailed)):
        return error
    if isinstance(error, EngineNotFound) and "no such container" in error.text.lower():
        return error
    return StartFailed(error.text)


def pull_failure(reference: str, status: int, text: str) -> ImageFailed:
    """Why a pull failed: ``ImageFailed`` where a retry cannot help, else ``ImagePullFailed`` (S1.28)."""
    text = text.strip()
    lower = text.lower()

    def has(words: tuple[str, ...]) -> bool:
        return any(word in lower for word in words)

    # Docker speaks of a "denied or missing" repository in one text; the registry's refusal is the first to be told.
    if has(_MALFORMED):
        return ImageFailed(f"Image {reference} is not a valid reference: {text}")
    if has(_TRANSPORT) and not has(_REFUSED):
        return ImagePullFailed(f"Error on pulling image: {reference}: {text}")
    if has(_REFUSED):
        return ImageFailed(f"Image {reference} was refused by the registry: {text}")
    if has(_MISSING):
        return ImageFailed(f"Image {reference} was not found: {text}")
    if has(_UNUSABLE) or 400 <= status < 500:
        return ImageFailed(f"Image {reference} cannot be pulled: {text}")
    return ImagePullFailed(f"Error on pulling image: {reference}: {text}")
