"""Keystone says who asks: tokens are checked with our own account, and believed for a while.

Neither tokens nor what hashes to them is logged; a token is a key by its hash only. Used by the API.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections import OrderedDict
from dataclasses import replace
from typing import Any

from zun.domain.caller import Caller
from zun.domain.clock import Clock
from zun.domain.errors import ServiceUnavailable
from zun.identity.keystone_token import Checked, parse
from zun.openstack.client import Refused, ServiceClient

LOG = logging.getLogger(__name__)

_CACHE_SIZE = 8192
_LONGEST_BELIEF = 300.0
"""Seconds after which a revoked token is out at the latest, whatever ``token_cache_time`` says."""
_DEADLINE = 10.0
"""Seconds a caller waits for Keystone, log-in of our own account and repetitions included."""
_TOKEN = re.compile(r"[!-~]{1,8192}")
_PATH = "/auth/tokens"


class KeystoneIdentity:
    """See ``zun.identity.base.Identity``."""

    def __init__(self, keystone: ServiceClient, conf: Any, clock: Clock) -> None:
        options = conf.keystone_authtoken
        self.www_authenticate = f'Keystone uri="{options.www_authenticate_uri or options.auth_url}"'
        self._keystone = keystone
        self._clock = clock
        self._believed = min(float(options.token_cache_time), _LONGEST_BELIEF)
        self._deadline = min(float(options.timeout or _DEADLINE), _DEADLINE)
        self._service_roles = frozenset(role.lower() for role in options.service_token_roles)
        self._roles_required: bool = options.service_token_roles_required
        self._cache: OrderedDict[bytes, tuple[float, Checked]] = OrderedDict()
        self._flights: dict[tuple[bytes, bool], asyncio.Task[Checked | None]] = {}

    async def authenticate(self, token: str, service_token: str | None = None) -> Caller | None:
        """The caller; None when either token is no good. Raises ServiceUnavailable naming Keystone, within seconds.

        A revocation is seen after at most ``token_cache_time`` seconds, an end of life at once. A service that acts
        for the caller may use a token that ended a while ago: a long task outlives the token it began with.
        """
        if not service_token:
            found = await self._checked(token)
            return replace(found.caller, token=token) if found else None
        service = await self._checked(service_token)
        if service is None:
            return None
        trusted = any(role.lower() in self._service_roles for role in service.caller.roles)
        if not trusted and self._roles_required:
            LOG.info("action=check-token outcome=refused reason=service-token-without-a-service-role")
            return None
        found = await self._checked(token, allow_expired=trusted)
        if found is None:
            return None
        return replace(
            found.caller,
            token=token,
            service_user_id=service.caller.user_id,
            service_roles=service.caller.roles,
        )

    async def _checked(self, token: str, *, allow_expired: bool = False) -> Checked | None:
        if not _TOKEN.fullmatch(token):
            return None
        key = hashlib.sha256(token.encode()).digest()
        until, found = self._cache.get(key, (0.0, None))
        if found is None or self._clock.monotonic() >= until:
            found = await self._look_up(key, token, allow_expired)
        else:
            self._cache.move_to_end(key)
        if found is None or not (allow_expired or found.valid_at(self._clock.now())):
            return None
        return found

    async def _look_up(self, key: bytes, token: str, allow_expired: bool) -> Checked | None:
        """One question a token at a time; a caller who leaves does not end it for the others."""
        flight = self._flights.get((key, allow_expired))
        if flight is None:
            flight = asyncio.create_task(self._ask(key, token, allow_expired), name="token-check")
            self._flights[key, allow_expired] = flight
            flight.add_done_callback(lambda done: self._landed((key, allow_expired), done))
        return await asyncio.shield(flight)

    def _landed(self, flight: tuple[bytes, bool], done: asyncio.Task[Checked | None]) -> None:
        self._flights.pop(flight, None)
        if not done.cancelled():
            done.exception()  # seen: the last caller may have left

    async def _ask(self, key: bytes, token: str, allow_expired: bool) -> Checked | None:
        query = {"nocatalog": ""} | ({"allow_expired": "1"} if allow_expired else {})
        try:
            answer = await self._keystone.request(
                "GET", _PATH, params=query, headers={"X-Subject-Token": token}, deadline=self._deadline
            )
            found = parse(answer.body)
        except ValueError as error:
            raise ServiceUnavailable(self._keystone.name, "its answer is not understood") from error
        except Refused as refusal:
            self._cache.pop(key, None)
            if refusal.status == 404:
                return None
            raise ServiceUnavailable(
                self._keystone.name, f"it does not let our account check tokens ({refusal.status})"
            ) from refusal
        # Unknown tokens are not remembered: guesses must not push real ones out.
        self._remember(key, found)
        return found

    def _remember(self, key: bytes, found: Checked) -> None:
        if self._believed <= 0:
            return
        self._cache[key] = (self._clock.monotonic() + self._believed, found)
        self._cache.move_to_end(key)
        while len(self._cache) > _CACHE_SIZE:
            self._cache.popitem(last=False)
