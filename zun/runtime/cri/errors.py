"""What the engine's refusals mean in the port's words. Pure."""

from __future__ import annotations

import re
from typing import Any

import grpc

from zun.domain.errors import EngineConflict, EngineError, EngineNotFound, EngineUnreachable

ENGINE = "CRI"
"""As errors name it: ``CRI internal error: …``."""

_WRAPPED = re.compile(r"rpc error: code = \w+ desc = ")
_SILENT = ("server is not initialized yet", "transport is closing", "containerd: not ready")
_STATES = (
    "is in container_",
    "is in removing state",
    "is in starting state",
    "is not running",
    "not created or running",
    "not found in running",
    "failed to reserve",
    "already exists",
    "no running task found",
    "is already in removing",
    "is already in starting",
)
_CODES = {
    grpc.StatusCode.NOT_FOUND: EngineNotFound,
    grpc.StatusCode.ALREADY_EXISTS: EngineConflict,
    grpc.StatusCode.FAILED_PRECONDITION: EngineConflict,
    grpc.StatusCode.ABORTED: EngineConflict,
}


def failed(text: str) -> EngineError:
    return EngineError(text, engine=ENGINE)


def absent(text: str) -> EngineNotFound:
    return EngineNotFound(text, engine=ENGINE)


def conflict(text: str) -> EngineConflict:
    return EngineConflict(text, engine=ENGINE)


def unreachable(text: str) -> EngineUnreachable:
    return EngineUnreachable(text, engine=ENGINE)


def words(error: Any) -> str:
    """The engine's text without the wrapping of calls that it made itself."""
    text = _WRAPPED.sub("", str(error.details() or "")).strip()
    return text or str(error.code().name)


def never_sent(error: Any) -> bool:
    """Was there no connection, so that the engine cannot have seen the call?"""
    return error.code() is grpc.StatusCode.UNAVAILABLE and "failed to connect" in str(error.details())


def passes(text: str) -> bool:
    """Is it a refusal that containerd itself has made an end to by refusing? Killed while it made a layer of files, it
    stumbles over that once."""
    return "failed to rename" in text and "file exists" in text


def at_work(text: str) -> bool:
    """Is it a refusal since the engine still has one of that name in hand?"""
    return "failed to reserve" in text


def runs_on(text: str) -> bool:
    """Is it a refusal to remove what has ended, as the engine does not know?"""
    return "to stop first" in text


def translated(error: Any, endpoint: str, deadline: float | None) -> EngineError:
    """An ``AioRpcError`` as one of the port's errors."""
    code, text = error.code(), words(error)
    lower = text.lower()
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        within = f" within {deadline:g} seconds" if deadline else " in time"
        return unreachable(f"{endpoint} did not answer{within}")
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED) or any(one in lower for one in _SILENT):
        return unreachable(f"{endpoint} does not answer: {text}")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return failed(f"{endpoint} does not know a call that is needed: {text}")
    kind = _CODES.get(code)
    if kind is not None:
        return kind(text, engine=ENGINE)
    if any(one in lower for one in _STATES):
        return conflict(text)
    return failed(text)
