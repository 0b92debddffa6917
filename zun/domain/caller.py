"""Who asks: the identity behind a request. Pure data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller; ``is_admin`` is filled from rule ``context_is_admin``."""

    user_id: str
    project_id: str | None
    roles: frozenset[str] = frozenset()
    user_name: str | None = None
    project_name: str | None = None
    is_admin: bool = False
    token: str | None = None
    """The caller's token, for calls to other services in the caller's name. Never logged."""
