"""Who asks: the identity behind a request. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller; ``is_admin`` is filled from rule ``context_is_admin``."""

    user_id: str
    project_id: str | None
    """None: the token is of a domain, of the system, or of no scope at all."""
    roles: frozenset[str] = frozenset()
    user_name: str | None = None
    project_name: str | None = None
    is_admin: bool = False
    token: str | None = field(default=None, compare=False, repr=False)
    """The caller's token, for calls to other services in the caller's name. Never logged, in no key."""
    user_domain_id: str | None = None
    user_domain_name: str | None = None
    project_domain_id: str | None = None
    project_domain_name: str | None = None
    domain_id: str | None = None
    """The domain that the token is of."""
    system_scope: str | None = None
    """``all`` for a token of the whole system."""
    is_admin_project: bool = True
    """False only where Keystone has an admin project and the token is of another."""
    service_user_id: str | None = None
    service_roles: frozenset[str] = frozenset()
    """Of the service that acts for the caller."""
