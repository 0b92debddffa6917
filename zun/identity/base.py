"""The identity port: who holds a token."""

from __future__ import annotations

from typing import Protocol

from zun.domain.caller import Caller


class Identity(Protocol):
    """Validates tokens; cached and single-flight inside."""

    www_authenticate: str
    """Value of the WWW-Authenticate header of a 401."""

    async def authenticate(self, token: str, service_token: str | None = None) -> Caller | None:
        """The caller, None when the token is unknown, revoked or expired. Unavailable when it cannot be told.

        ``service_token``: that of another service acting for the caller; None also when it is no good.
        """
        ...
