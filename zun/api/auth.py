"""Who is asking: the token, and nothing else a client may claim of itself."""

from __future__ import annotations

from dataclasses import replace

from zun.api.call import Policy
from zun.domain.caller import Caller
from zun.domain.errors import PolicyNotAuthorized, Unauthorized
from zun.identity.base import Identity

IDENTITY_HEADERS = frozenset(
    name.encode()
    for name in [
        "x-identity-status",
        "x-service-identity-status",
        "x-user",
        "x-user-id",
        "x-user-name",
        "x-user-domain-id",
        "x-user-domain-name",
        "x-tenant",
        "x-tenant-id",
        "x-tenant-name",
        "x-project-id",
        "x-project-name",
        "x-project-domain-id",
        "x-project-domain-name",
        "x-domain-id",
        "x-domain-name",
        "x-role",
        "x-roles",
        "x-service-roles",
        "x-service-user-id",
        "x-service-user-name",
        "x-service-project-id",
        "x-service-project-name",
        "x-service-project-domain-id",
        "x-service-project-domain-name",
        "x-service-user-domain-id",
        "x-service-user-domain-name",
        "x-service-domain-id",
        "x-service-domain-name",
        "x-service-catalog",
        "x-is-admin-project",
        "x-system-scope",
        "openstack-system-scope",
        "x-openstack-request-id",
    ]
)
"""Set by authentication filters; from outside they are dropped before anything reads headers."""

_READ = frozenset({"GET", "HEAD"})
_READER = frozenset({"reader"})


async def authenticate(
    identity: Identity, policy: Policy, token: str | None, service_token: str | None = None
) -> Caller:
    """The caller with ``is_admin`` decided by rule ``context_is_admin``; ``service_token``: of the service in between.

    Raises Unauthorized (401); Unavailable when the identity service cannot tell.
    """
    caller = await identity.authenticate(token, service_token) if token else None
    if caller is None:
        raise Unauthorized("The request you have made requires authentication.")
    is_admin = policy.check("context_is_admin", caller)
    return caller if caller.is_admin == is_admin else replace(caller, is_admin=is_admin)


def guard_reader(caller: Caller, method: str, rule: str) -> None:
    """A token whose only role is ``reader`` reads and nothing else; raises PolicyNotAuthorized naming ``rule``."""
    if method not in _READ and caller.roles and {role.lower() for role in caller.roles} == _READER:
        raise PolicyNotAuthorized(rule)
