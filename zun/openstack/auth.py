"""Our own account in Keystone: one token, kept, renewed before it ends, and the catalogue that came with it.

keystoneauth does the log-in, in a thread; nobody who asks for a token waits while the old one is good.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from keystoneauth1 import exceptions, loading
from keystoneauth1.access import AccessInfo
from keystoneauth1.identity.base import BaseIdentityPlugin

from zun.conf import ConfigError, keystone_options
from zun.domain.errors import ServiceUnavailable

LOG = logging.getLogger(__name__)

SERVICE = "Keystone"
_RENEW_WITHIN = 300.0
"""Seconds before its end at which a token is renewed in the background; a fifth of its life if that is shorter."""
_TOO_LATE = 20.0
"""Seconds before its end at which a token is not handed out any more."""
_NEW = 10.0
"""Seconds for which a token counts as new."""
_AGAIN = (0.3, 0.9)
"""Seconds between the tries of a log-in."""
_PAUSE = timedelta(seconds=5)
"""After a log-in that failed, while the old token is good."""
_TIMEOUT = 20.0


class ServiceAuth:
    """Tokens and endpoints for our own account. All methods raise ServiceUnavailable naming Keystone."""

    def __init__(self, conf: Any, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Raises ConfigError when the account's options do not make one."""
        own = conf.keystone_auth.auth_url or conf.keystone_auth.auth_section
        group = "keystone_auth" if own else "keystone_authtoken"
        try:
            plugin = _plugin(conf, conf[group].auth_section or group)
        except exceptions.ClientException as error:
            raise ConfigError(f"[{group}] names no usable account: {error}") from error
        if not isinstance(plugin, BaseIdentityPlugin):
            raise ConfigError(f"[{group}]/auth_type is not set; a service account is needed, e.g. auth_type = password")
        self._plugin = plugin
        loading.register_session_conf_options(conf, group)
        self._session = loading.load_session_from_conf_options(conf, group, timeout=conf[group].timeout or _TIMEOUT)
        self._now = now
        self._access: AccessInfo | None = None
        self._fetched = self._not_before = now()
        self._flight: asyncio.Task[AccessInfo] | None = None
        self.logins = 0
        """How often a token was asked for; nothing asks while one is valid."""

    async def token(self) -> str:
        """A token of ours with some life left."""
        return str((await self._current()).auth_token)

    async def user_id(self) -> str:
        """Our own user id."""
        return str((await self._current()).user_id)

    async def endpoint(self, service_types: Sequence[str], interface: str, region: str | None) -> str:
        """URL of a service from the catalogue, the first of the types that is in it, without a trailing slash."""
        catalog = (await self._current()).service_catalog
        for service_type in service_types:
            urls = catalog.get_urls(service_type=service_type, interface=interface, region_name=region)
            if urls:
                return str(urls[0]).rstrip("/")
        where = f" in region {region}" if region else ""
        raise ServiceUnavailable(SERVICE, f"its catalogue has no {interface} endpoint of {service_types[0]}{where}")

    def refused(self, token: str) -> None:
        """A service did not take this token: the next caller gets a new one. A token that is new itself is kept: then
        it is the service that is wrong, and it must not make us log in at every call."""
        if self._access is None or self._access.auth_token != token:
            return
        if (self._now() - self._fetched).total_seconds() >= _NEW:
            self._access = None

    async def close(self) -> None:
        """End a log-in at work."""
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.gather(self._flight, return_exceptions=True)
        self._session.session.close()

    async def _current(self) -> AccessInfo:
        access = self._access
        left = self._left(access)
        if access is not None and left > _TOO_LATE:
            if left < self._renew_within(access) and self._now() >= self._not_before:
                self._log_in()  # in the background: the old token is good
            return access
        return await asyncio.shield(self._log_in())

    def _left(self, access: AccessInfo | None) -> float:
        """Seconds; counted from when the token came, so that a clock beside Keystone's does no harm."""
        if access is None or access.expires is None:
            return 0.0
        if access.issued is None:
            return (access.expires - self._now()).total_seconds()
        return (access.expires - access.issued - (self._now() - self._fetched)).total_seconds()

    def _renew_within(self, access: AccessInfo) -> float:
        if access.issued is None or access.expires is None:
            return _RENEW_WITHIN
        return min(_RENEW_WITHIN, (access.expires - access.issued).total_seconds() / 5)

    def _log_in(self) -> asyncio.Task[AccessInfo]:
        """One log-in at a time, whoever asks; a caller who leaves does not end it for the others."""
        if self._flight is None:
            self._flight = asyncio.create_task(self._fetch(), name="keystone-login")
            self._flight.add_done_callback(self._landed)
        return self._flight

    def _landed(self, flight: asyncio.Task[AccessInfo]) -> None:
        self._flight = None
        if flight.cancelled():
            return
        if (error := flight.exception()) is not None:  # seen here: nobody may be waiting
            self._not_before = self._now() + _PAUSE
            LOG.warning("action=keystone-login result=failed reason=%s", error)

    async def _fetch(self) -> AccessInfo:
        self.logins += 1
        try:
            access = await self._get()
        except exceptions.Unauthorized as error:
            raise ServiceUnavailable(SERVICE, "it refuses our own account; see [keystone_auth]") from error
        except (exceptions.ClientException, OSError) as error:  # OSError: TLS files that are not there
            raise ServiceUnavailable(SERVICE, _first_line(error)) from error
        if access is None:
            raise ServiceUnavailable(SERVICE, "the account's auth_type gives no token")
        self._access, self._fetched = access, self._now()
        LOG.info("action=keystone-login result=ok expires=%s", access.expires)
        return access

    async def _get(self) -> AccessInfo | None:
        """Repeated after a fault that passes at once, such as a restart; a Keystone that hangs is not asked again."""
        for pause in (*_AGAIN, None):
            try:
                found: AccessInfo | None = await asyncio.to_thread(self._plugin.get_auth_ref, self._session)
                return found
            except (exceptions.ConnectFailure, exceptions.HttpServerError) as error:
                if pause is None or isinstance(error, exceptions.ConnectTimeout):
                    raise
            await asyncio.sleep(pause)
        raise AssertionError


def _plugin(conf: Any, group: str) -> Any:
    """The account of a group; options of plug-ins that our reference does not list are read here."""
    common = {option.dest: option for option in loading.get_auth_common_conf_options()}
    conf.register_opt(common["auth_type"], group)
    name = conf[group].auth_type
    if not name:
        return None
    known = keystone_options.account()
    options = [option for option in options_of(name) if option.dest not in {one.dest for one in known}]
    conf.register_opts([*known, *options], group)
    return loading.get_plugin_loader(name).load_from_options_getter(lambda option: conf[group][option.dest])


def options_of(name: str) -> list[Any]:
    """Options of one plug-in. None is required: a deployment without Keystone has no account."""
    options = [copy.copy(option) for option in loading.get_auth_plugin_conf_options(name)]
    for option in options:
        option.required = False
    return options


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
