"""Stand-ins for what tests have to steer: who a token is, and an identity service that does not answer."""

from __future__ import annotations

from zun.domain.caller import Caller
from zun.domain.errors import Unavailable


class FakeIdentity:
    """Tokens are given by the test; no database behind."""

    www_authenticate = 'Keystone uri="http://identity.example.org"'

    def __init__(self) -> None:
        self.callers: dict[str, Caller] = {}
        self.down = False

    def add(self, token: str, caller: Caller) -> None:
        self.callers[token] = caller

    async def authenticate(self, token: str, service_token: str | None = None) -> Caller | None:
        if self.down:
            raise Unavailable("The identity service does not answer.")
        return self.callers.get(token)
