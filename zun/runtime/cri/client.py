"""One CRI endpoint: its channel, the handshake, a deadline for each call, errors in the port's words.

Nothing outside this package sees gRPC's exceptions or messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from zun.domain.errors import EngineError, EngineUnreachable
from zun.runtime.cri.errors import failed, never_sent, translated, unreachable
from zun.runtime.cri.facts import EngineFacts, engine_facts
from zun.runtime.cri.protocol import METHODS

LOG = logging.getLogger(__name__)

NAMESPACE = (("containerd-namespace", "k8s.io"),)
"""Where containerd keeps all that is made over CRI."""

_OLD = "/runtime.v1alpha2.RuntimeService/Version"
# A plug-in may find an interface just going.
_PASSING = ("removing state", "starting state", "ttrpc: closed", "no such device")
_DIAL_SECONDS = 1.0
_ANSWER_SECONDS = 3.0
_OPTIONS = (
    # Answers of commands have up to 16 MiB of each stream.
    ("grpc.max_receive_message_length", 64 << 20),
    # A restarted engine is found again at once: a refused connection to a socket on this host costs nothing.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 250),
    # Two clients of a process must not share what each believes of the connection.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


class CriClient:
    """Calls to the engine of ``[cri]/endpoint``. Safe to use from many tasks at once."""

    def __init__(self, conf: Any) -> None:
        self.endpoint: str = conf.cri.endpoint
        self.deadline = float(conf.cri.request_timeout)
        self._channel: Any = None
        self._facts: EngineFacts | None = None
        self._meeting = asyncio.Lock()

    async def connect(self) -> EngineFacts:
        """The engine speaks CRI v1: what it is. Asked once. Raises EngineUnreachable naming the endpoint, EngineError
        with what to change for an engine too old."""
        async with self._meeting:
            if self._facts is None:
                version = await self._version()
                status = await self._call("Status", METHODS["Status"].request(verbose=True), self.deadline)
                self._facts = found = engine_facts(version, status)
                LOG.info("action=connect endpoint=%s engine=%s version=%s", self.endpoint, found.name, found.version)
            return self._facts

    async def meet(self) -> EngineFacts:
        """As ``connect``, and asked anew: the engine may have been given other handlers, or be another one."""
        self._facts = None
        return await self.connect()

    async def answers(self) -> bool:
        """Does it, within a moment?"""
        try:
            await self._send("Version", METHODS["Version"].request(), _ANSWER_SECONDS)
        except grpc.aio.AioRpcError:
            return False
        return True

    async def close(self) -> None:
        """Give back the connection; a later call makes it again."""
        channel, self._channel, self._facts = self._channel, None, None
        if channel is not None:
            await channel.close()

    async def call(self, method: str, *, extra: float = 0.0, **fields: Any) -> Any:
        """One call and its answer. ``extra``: seconds the engine may rightly take beyond the configured deadline.
        Raises the port's errors."""
        await self.connect()
        return await self._call(method, METHODS[method].request(**fields), self.deadline + extra)

    async def awaited(self, method: str, **fields: Any) -> Any:
        """As ``call``, without a deadline: its answer is what somebody waits for."""
        await self.connect()
        return await self._call(method, METHODS[method].request(**fields), None)

    async def repeated(self, method: str, *, extra: float = 0.0, **fields: Any) -> Any:
        """As ``call``, to end or remove something: waits for one that the engine has at work already, and for what it
        does where a shim died, which ends all that ran below it."""
        loop, pause = asyncio.get_running_loop(), 0.02
        end = loop.time() + self.deadline + extra
        while True:
            try:
                return await self.call(method, extra=extra, **fields)
            except EngineUnreachable:
                raise
            except EngineError as error:
                if not any(words in error.text for words in _PASSING) or loop.time() > end:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)

    async def raw(self, method: str, deadline: float, **fields: Any) -> Any:
        """As ``call``, with a deadline in seconds that means something to the caller: raises gRPC's own error."""
        await self.connect()
        return await self._send(method, METHODS[method].request(**fields), deadline)

    @contextlib.asynccontextmanager
    async def stream(self, method: str, **fields: Any) -> AsyncIterator[Any]:
        """Answers as they come, without a deadline. Raises the port's errors, also while they are read."""
        await self.connect()
        call = METHODS[method].on(self._open())(METHODS[method].request(**fields), metadata=NAMESPACE)
        try:
            yield call
        except grpc.aio.AioRpcError as error:
            raise translated(error, self.endpoint, None) from error
        finally:
            call.cancel()

    def translated(self, error: Any) -> EngineError:
        """The port's error for what ``raw`` raised."""
        return translated(error, self.endpoint, None)

    async def _version(self) -> Any:
        request = METHODS["Version"].request()
        try:
            return await self._send("Version", request, self.deadline)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise translated(error, self.endpoint, self.deadline) from error
            raise failed(await self._too_old()) from error

    async def _too_old(self) -> str:
        """What to change where CRI v1 is not served."""
        try:
            old = await METHODS["Version"].on(self._open(), _OLD)(METHODS["Version"].request(), timeout=self.deadline)
        except grpc.aio.AioRpcError:
            return (
                f"{self.endpoint} serves no CRI v1 (runtime.v1): either disabled_plugins in the config.toml of"
                " containerd names cri, or the engine is too old; containerd 1.6 or newer is needed"
            )
        return (
            f"{old.runtime_name} {old.runtime_version} at {self.endpoint} is too old: it speaks CRI v1alpha2 and not"
            " v1; containerd 1.6 or newer is needed"
        )

    async def _call(self, method: str, request: Any, deadline: float | None) -> Any:
        try:
            return await self._send(method, request, deadline)
        except grpc.aio.AioRpcError as error:
            found = translated(error, self.endpoint, deadline)
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                self._facts = None  # another engine is there now: meet anew
            raise found from error

    async def _send(self, method: str, request: Any, deadline: float | None) -> Any:
        send = METHODS[method].on(self._open())
        try:
            return await send(request, timeout=deadline, metadata=NAMESPACE)
        except grpc.aio.AioRpcError as error:
            if not never_sent(error) or not await self._listens():
                raise
        # The engine is back, and the channel only waits before it dials again.
        return await send(request, timeout=deadline, metadata=NAMESPACE, wait_for_ready=True)

    async def _listens(self) -> bool:
        path = self.endpoint.removeprefix("unix://")
        try:
            async with asyncio.timeout(_DIAL_SECONDS):
                _, writer = await asyncio.open_unix_connection(path)
        except (OSError, TimeoutError):
            return False
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return True

    def _open(self) -> Any:
        if self._channel is None:
            if not self.endpoint.startswith("unix:///"):
                raise unreachable(f"[cri]/endpoint '{self.endpoint}' has to be unix:///path")
            self._channel = grpc.aio.insecure_channel(self.endpoint, options=_OPTIONS)
        return self._channel
