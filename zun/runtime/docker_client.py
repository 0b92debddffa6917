"""One Docker endpoint: session, negotiated API version, a deadline for each call, errors in the port's words.

Uses aiodocker's session and raw requests. Nothing outside the ``docker`` modules of this package sees a
library's exception.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import aiodocker
import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey

from zun.domain.errors import EngineError, EngineUnreachable, PluginSilent
from zun.runtime.docker_errors import refusal
from zun.runtime.upgrade import Refused, upgrade
from zun.runtime.wire import Wire, WireClosed

LOG = logging.getLogger(__name__)

OLDEST = (1, 40)
NEWEST = (1, 47)
"""API versions these modules know; newer engines still speak NEWEST."""

_CONNECT_SECONDS = 10.0
_PING_SECONDS = 5.0
_NO_ANSWER = 900
"""aiodocker's pseudo status for a connection that was not made or was lost."""


def version_tuple(text: str) -> tuple[int, int]:
    """``v1.41`` or ``1.41`` -> (1, 41); raises ValueError."""
    major, _, minor = text.lstrip("v").partition(".")
    return int(major), int(minor)


def negotiate(wanted: str, engine: str, engine_oldest: str) -> tuple[int, int]:
    """The version to speak; raises EngineError when there is none in common."""
    low, high = version_tuple(engine_oldest or "1.12"), version_tuple(engine)
    choice = min(high, NEWEST) if wanted == "auto" else version_tuple(wanted)
    if not max(low, OLDEST) <= choice <= high:
        raise EngineError(
            f"no common API version: the engine speaks {engine_oldest} to {engine}, "
            f"wanted is {wanted} of at least {OLDEST[0]}.{OLDEST[1]}"
        )
    return choice


def segment(text: str) -> str:
    """``text`` as part of a path; slashes, colons and @ of image names stay."""
    return quote(text, safe="/:@")


class _Dropping(aiohttp.BaseConnector):
    """A connection that is given up is dropped at once. aiohttp would first send what is left of the request, and an
    engine that does not read it any more (a refused or a cancelled upload) would keep the socket open."""

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        transport = protocol.transport
        super()._release(key, protocol, should_close=should_close)
        if transport is not None and transport.is_closing():
            transport.abort()


class _UnixConnector(_Dropping, aiohttp.UnixConnector):
    pass


class _TCPConnector(_Dropping, aiohttp.TCPConnector):
    pass


class DockerClient:
    """Raw calls to the engine of ``[docker]/api_url``. Safe to use from many tasks at once."""

    def __init__(self, conf: Any, *, plugging: float = 0.0, endpoint: str = "") -> None:
        """``plugging``: seconds that a network plug-in may add to a call, 0 where none is used; it may serve one
        container at a time. ``endpoint``: another than the configured one."""
        section = conf.docker
        self.endpoint: str = endpoint or section.api_url
        self.deadline = float(section.default_timeout)
        self.plugging = plugging
        self.version: tuple[int, int] = (0, 0)
        self._held: set[str] = set()
        self._conf = section
        self._wanted: str = section.docker_remote_api_version
        self._docker: aiodocker.Docker | None = None
        self._connector: aiohttp.BaseConnector | None = None
        self._negotiating = asyncio.Lock()

    @property
    def local(self) -> bool:
        """Does the engine run on this host, so that its pids and mounts are ours?"""
        return self.endpoint.startswith("unix://")

    async def connect(self) -> None:
        """Agree on an API version. Raises EngineUnreachable naming the endpoint."""
        async with self._negotiating:
            if self.version != (0, 0):
                return
            docker = self._open()
            with self._translated(self.deadline):
                async with (
                    asyncio.timeout(self.deadline),
                    docker._query("version", versioned_api=False) as response,
                    response,
                ):
                    facts = json.loads(await response.read())
                self.version = negotiate(self._wanted, facts["ApiVersion"], facts.get("MinAPIVersion", ""))
            docker.api_version = f"v{self.version[0]}.{self.version[1]}"
            LOG.info("action=connect endpoint=%s engine=%s api=%s", self.endpoint, facts["Version"], docker.api_version)

    async def close(self) -> None:
        """Give back all connections; a later call opens them again."""
        docker, connector = self._docker, self._connector
        self._docker = self._connector = None
        self.version = (0, 0)
        if docker is not None:
            await docker.close()
        if connector is not None:
            await connector.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        extra: float = 0.0,
        plugs: bool = False,
        empty: bool = False,
    ) -> Any:
        """One request and its JSON answer (None if empty, as that to a GET may only be with ``empty``). ``extra``:
        seconds the engine may rightly take beyond the configured deadline; ``plugs``: its network plug-in has a part in
        it, and may take its own. Raises the port's errors; PluginSilent where the engine seems to wait for the
        plug-in."""
        docker = await self._ready()
        deadline = self.deadline + extra + (self.plugging if plugs else 0.0)
        thing = "/".join(path.split("/")[:2])
        try:
            with self._translated(deadline):
                async with (
                    asyncio.timeout(deadline),
                    docker._query(path, method, params=params, data=_encoded(body), headers=headers) as response,
                    response,
                ):
                    raw = await response.read()
                if method == "GET" and not empty and not raw.strip():
                    raise ValueError("it is empty")  # as those are whose engine ends meanwhile
                answer = json.loads(raw) if raw.strip() else None
        except EngineUnreachable as error:
            if not self.plugging or not (plugs or thing in self._held) or not await self._waits(error):
                raise
            self._held.add(thing)
            raise PluginSilent(deadline) from error
        self._held.discard(thing)
        return answer

    async def _waits(self, error: EngineUnreachable) -> bool:
        """Did the call of this error only take too long, in an engine that still answers others? While a plug-in keeps
        the engine waiting for a container, it also leaves every other question about that container unanswered."""
        if not isinstance(error.__cause__, TimeoutError):
            return False
        docker = await self._ready()
        try:
            with self._translated(_PING_SECONDS):
                async with (
                    asyncio.timeout(_PING_SECONDS),
                    docker._query("version", versioned_api=False) as response,
                    response,
                ):
                    await response.read()
        except EngineError:
            return False
        return True

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        data: AsyncIterator[bytes] | None = None,
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """The body of an answer as it comes; see ``exchange``."""
        sent = self.exchange(method, path, params=params, body=body, headers=headers, data=data)
        async with sent as response:
            yield response.content

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        data: AsyncIterator[bytes] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer as it comes, without a deadline: the caller sets one. ``data``: a body that is sent as it comes,
        instead of JSON. Raises as ``call``."""
        docker = await self._ready()
        with self._translated(None):
            async with (
                docker._query(path, method, params=params, data=data or _encoded(body), headers=headers) as response,
                response,
            ):
                yield response

    async def hijack(self, path: str, *, params: Mapping[str, str] | None = None, body: Any = None) -> Wire:
        """POST, and from then on the connection itself, the caller's to close: the engine's streams both ways. Raises
        as ``call``."""
        await self._ready()
        query = f"?{urlencode(params)}" if params else ""
        target = f"/v{self.version[0]}.{self.version[1]}/{path}{query}"
        with self._translated(self.deadline):
            async with asyncio.timeout(self.deadline):
                wire = await self._dial()
                try:
                    await upgrade(wire, target, host="docker", protocol="tcp", body=body)
                except BaseException as error:
                    await wire.close()
                    if isinstance(error, Refused):
                        raise refusal(error.status, error.text) from error
                    if isinstance(error, WireClosed):
                        raise self._silent(error) from error
                    raise
        return wire

    async def _dial(self) -> Wire:
        if self.local:
            return await Wire.unix(self.endpoint.removeprefix("unix://"))
        address = urlsplit(self.endpoint)
        tls = self._tls() if address.scheme == "https" or self._has_tls() else None
        return await Wire.tcp(address.hostname or "", address.port or (443 if tls else 80), tls)

    async def _ready(self) -> aiodocker.Docker:
        if self._docker is None or self.version == (0, 0):
            await self.connect()
        assert self._docker is not None  # noqa: S101 - connect() made it
        return self._docker

    def _open(self) -> aiodocker.Docker:
        if self._docker is None:
            url, self._connector = self._connection()
            self._docker = aiodocker.Docker(
                url=url,
                connector=self._connector,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
                api_version="auto",
            )
        return self._docker

    def _connection(self) -> tuple[str, aiohttp.BaseConnector]:
        # No limit of connections: a hundred hung calls must not hold up the next. A unix socket costs nothing to
        # open, and a fresh one never meets the dead end of an engine that restarted.
        if self.local:
            path = self.endpoint.removeprefix("unix://")
            return "unix://localhost", _UnixConnector(path, limit=0, force_close=True)
        scheme, _, address = self.endpoint.partition("://")
        context = self._tls() if scheme == "https" or self._has_tls() else None
        if scheme not in ("tcp", "http", "https") or not address:
            raise EngineError(f"[docker]/api_url '{self.endpoint}' has to be unix:///path or tcp://host:port")
        if context is None:
            return f"http://{address}", _TCPConnector(limit=0)
        return f"https://{address}", _TCPConnector(limit=0, ssl=context)

    def _has_tls(self) -> bool:
        return bool(self._conf.ca_file or self._conf.cert_file)

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self._conf.ca_file or None)
            if self._conf.cert_file:
                context.load_cert_chain(self._conf.cert_file, self._conf.key_file or None)
        except OSError as error:
            raise EngineError(f"TLS files of {self.endpoint} cannot be used: {error}") from error
        if self._conf.api_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    @contextmanager
    def _translated(self, deadline: float | None) -> Iterator[None]:
        try:
            yield
        except aiodocker.DockerError as error:
            if error.status == _NO_ANSWER:
                raise self._silent(error.__context__ or error) from error
            refused = refusal(error.status, str(error.message))
            if isinstance(refused, EngineUnreachable):
                self.version = (0, 0)  # the engine was replaced by one of other versions: agree anew
            raise refused from error
        except TimeoutError as error:
            raise EngineUnreachable(
                f"{self.endpoint} did not answer within {deadline or _CONNECT_SECONDS:g} seconds"
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._silent(error) from error
        except (ValueError, KeyError) as error:
            raise EngineError(f"{self.endpoint} gave an answer that cannot be read: {error}") from error

    def _silent(self, error: BaseException) -> EngineUnreachable:
        return EngineUnreachable(f"{self.endpoint} does not answer: {str(error) or type(error).__name__}")


def _encoded(body: Any) -> bytes | None:
    return None if body is None else json.dumps(body).encode()
