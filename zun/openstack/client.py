"""One OpenStack service over HTTP: endpoint from the catalogue, our token or the caller's, deadlines, bounded retries.

Adapters translate ``Refused`` into the product's own errors; nothing above them sees it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from zun.conf import ConfigError
from zun.domain.errors import ServiceUnavailable

if TYPE_CHECKING:
    from zun.openstack.auth import ServiceAuth

LOG = logging.getLogger(__name__)

_RETRY_AFTER = (0.2, 0.6, 1.5)
"""Seconds (and up to as much again, at random) between the tries of a call that may be repeated."""
_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_PASSING = frozenset({500, 502, 503, 504})
_CONNECT_SECONDS = 5.0


class Refused(Exception):
    """The service answered with 4xx; ``message`` is its own text, which is foreign."""

    def __init__(self, service: str, status: int, message: str, body: Any) -> None:
        super().__init__(f"{service} answered {status}: {message}")
        self.service = service
        self.status = status
        self.message = message
        self.body = body


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service answered; ``body`` is parsed JSON, None if there was none."""

    status: int
    headers: Mapping[str, str]
    body: Any


class ServiceClient:
    """One service, by our own account unless a caller's token is given."""

    def __init__(
        self,
        name: str,
        service_types: Sequence[str],
        auth: ServiceAuth,
        options: Any,
        *,
        headers: Mapping[str, str] | None = None,
        version: str = "",
        as_service: bool = False,
        trim: re.Pattern[str] | None = None,
    ) -> None:
        """``name``: what error texts call it. ``options``: the group ``[<service>_client]``. ``version``: last segment
        of the endpoint, added where the catalogue's has none. ``as_service``: also our own calls carry a service
        token. ``trim``: what an endpoint may end with and is not wanted. Raises ConfigError."""
        self.name = name
        self._types = service_types
        self._auth = auth
        self._options = options
        self._interface = str(options.endpoint_type).removesuffix("URL")
        self._headers = dict(headers or {})
        self._version = version
        self._as_service = as_service
        self._trim = trim
        self._tls = _tls(name, options)
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | Sequence[tuple[str, str]] | None = None,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
        timeout: float | None = None,
        repeat: bool | None = None,
        deadline: float | None = None,
    ) -> Answer:
        """Call ``path`` (from the endpoint on, beginning with a slash).

        ``token``: the caller's; ours is sent beside it as the service token. ``timeout``: seconds for one try;
        ``deadline``: for all of it, a log-in of our own account included (an ``asyncio.timeout`` around the call is
        no substitute: aiohttp's own may swallow it).
        ``repeat``: may it be sent again after a fault that can pass? By default what HTTP says of the method; a call
        that never reached the service is always sent again. Without a ``deadline`` a service that has been silent for
        ``timeout`` seconds is not asked again: somebody waits. Raises Refused for 4xx, ServiceUnavailable else.
        """
        may_repeat = method in _REPEATABLE if repeat is None else repeat
        data = None if json is None else orjson.dumps(json)
        ends = None if deadline is None else time.monotonic() + deadline
        seconds = timeout or float(self._options.timeout)
        enough = time.monotonic() + seconds
        for step in (*_RETRY_AFTER, None):
            left = seconds if ends is None else min(seconds, ends - time.monotonic())
            try:
                return await self._try(method, path, data, params, headers, token, left, ends)
            except _Again as fault:
                pause = step and step * (1 + random.random())  # noqa: S311 - jitter
                late = time.monotonic() + (pause or 0) >= (enough if ends is None else ends)
                if pause is None or late or not (may_repeat or fault.unsent):
                    raise ServiceUnavailable(self.name, fault.detail) from fault
                LOG.info("action=%s service=%s path=%s result=again reason=%s", method, self.name, path, fault.detail)
            await asyncio.sleep(pause)
        raise AssertionError

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
        idle: float = 60.0,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A call whose body, either way, is too large to hold: not repeated, no overall deadline, ``idle`` seconds
        without a byte end it. Raises Refused, ServiceUnavailable."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=idle)
        identity = await self._identity(token)
        try:
            async with self._open().request(
                method,
                await self._url(path),
                data=data,
                headers={**identity, **(headers or {})},
                timeout=limits,
                ssl=self._tls,
                allow_redirects=False,
            ) as response:
                if response.status >= 400:
                    own_token = identity["X-Auth-Token"] if token is None else ""
                    await self._check(response.status, await response.read(), own_token)
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ServiceUnavailable(self.name, _reason(error, idle)) from error
        except _Again as fault:
            raise ServiceUnavailable(self.name, fault.detail) from fault

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _try(
        self,
        method: str,
        path: str,
        data: bytes | None,
        params: Any,
        headers: Mapping[str, str] | None,
        token: str | None,
        seconds: float,
        ends: float | None,
    ) -> Answer:
        try:
            async with asyncio.timeout(None if ends is None else seconds):
                identity, url = await self._identity(token), await self._url(path)
        except TimeoutError as error:
            raise ServiceUnavailable("Keystone", "our own account has no token yet") from error
        content = {"Content-Type": "application/json"} if data is not None else {}
        try:
            async with self._open().request(
                method,
                url,
                data=data,
                params=params,
                headers={"Accept": "application/json", **identity, **content, **(headers or {})},
                timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=min(seconds, _CONNECT_SECONDS)),
                ssl=self._tls,
                allow_redirects=False,
            ) as response:
                text = await response.read()
        except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError) as error:
            unsent = isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError))
            raise _Again(_reason(error, seconds), unsent=unsent) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _Again(_reason(error, seconds)) from error
        body = await self._check(response.status, text, identity["X-Auth-Token"] if token is None else "")
        return Answer(response.status, response.headers, body)

    async def _check(self, status: int, text: bytes, own_token: str) -> Any:
        """The parsed body; raises Refused or _Again."""
        body = _parsed(text)
        if status < 400:
            return body
        message = _message(body) or f"HTTP {status}"
        if status == 401 and own_token:
            self._auth.refused(own_token)
            raise _Again("it does not take our token", unsent=True)
        if status in _PASSING:
            raise _Again(f"it answered {status} ({message})")
        if status == 429:
            raise _Again("it is asked too often (429)", unsent=True)
        raise Refused(self.name, status, message, body)

    async def _identity(self, token: str | None) -> dict[str, str]:
        own = await self._auth.token()
        if token is None and not self._as_service:
            return {**self._headers, "X-Auth-Token": own}
        return {**self._headers, "X-Auth-Token": token or own, "X-Service-Token": own}

    async def _url(self, path: str) -> str:
        base = self._options.endpoint_override
        if not base:
            base = await self._auth.endpoint(self._types, self._interface, self._options.region_name)
        base = str(base).rstrip("/")
        if self._trim is not None:
            base = self._trim.sub("", base)
        return (f"{base.removesuffix(self._version)}{self._version}" if self._version else base) + path

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=64), cookie_jar=aiohttp.DummyCookieJar(), trust_env=True
            )
        return self._session


class _Again(Exception):
    """A fault that may pass. ``unsent``: the service has not acted on the call."""

    def __init__(self, detail: str, *, unsent: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.unsent = unsent


def _reason(error: BaseException, seconds: float) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"no connection to {error.host}:{error.port} ({error.strerror or error.os_error})"
    if isinstance(error, TimeoutError):
        return f"no answer within {seconds:g} seconds"
    return str(error) or type(error).__name__


def _parsed(text: bytes) -> Any:
    try:
        return orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return None


def _message(body: Any) -> str:
    """The text of an error in any of the forms that OpenStack services use."""
    if isinstance(body, dict):
        for key in ("NeutronError", "error", "badRequest", "itemNotFound", "conflictingRequest", "forbidden"):
            inner = body.get(key)
            if isinstance(inner, dict) and inner.get("message"):
                return str(inner["message"])
        errors = body.get("errors")
        if isinstance(errors, list) and errors and isinstance(errors[0], dict):
            return str(errors[0].get("detail") or errors[0].get("title") or "")
        for inner in body.values():
            if isinstance(inner, dict) and inner.get("message"):
                return str(inner["message"])
        if body.get("message"):
            return str(body["message"])
    return ""


def _tls(name: str, options: Any) -> ssl.SSLContext | bool:
    """False: certificates are not checked. Raises ConfigError."""
    if options.insecure:
        return False
    if not options.ca_file and not options.cert_file:
        return True
    try:
        context = ssl.create_default_context(cafile=options.ca_file)
        if options.cert_file:
            context.load_cert_chain(options.cert_file, options.key_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the TLS files for {name} cannot be used: {error}") from error
    return context
