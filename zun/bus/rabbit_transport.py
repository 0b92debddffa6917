"""The socket below a session, and what its errors mean in an operator's words."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from typing import Any
from urllib.parse import quote

from aio_pika.abc import ConnectionParameter
from aio_pika.connection import Connection
from aio_pika.exceptions import AuthenticationError, InvalidFrameError, ProbableAuthenticationError
from aiormq.connection import TransportFactory
from yarl import URL

from zun.bus.rabbit_url import Broker, Target

OPEN_SECONDS = 10.0
"""For connection, login and queues of a new session."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class Transports(TransportFactory):
    """Opens the socket, and can drop it without waiting for a peer that hangs."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._writer: asyncio.StreamWriter | None = None

    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, self._writer = await asyncio.open_connection(url.host, url.port, ssl=self._context)
        return reader, self._writer

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()


class BrokerConnection(Connection):
    """The library's, on a socket of ours."""

    PARAMETERS = (*Connection.PARAMETERS, ConnectionParameter("transport_factory", lambda given: given, is_kwarg=True))


def connection_url(target: Target, broker: Broker, name: str) -> URL:
    # The library gives a broker up after three times its heartbeat of silence.
    silence = target.options.heartbeat_timeout_threshold
    return URL.build(
        scheme="amqps" if target.tls else "amqp",
        host=broker.host,
        port=broker.port,
        user=broker.user,
        password=broker.password,
        path="/" + quote(target.vhost, safe=""),
        query={"heartbeat": str(max(1, silence // 3) if silence else 0), "name": name},
    )


def explain(error: BaseException | None, broker: Broker, vhost: str) -> str:
    """Why there is no connection, in words for the operator; never a password."""
    match error:
        case ProbableAuthenticationError() | AuthenticationError():
            return f"{broker} refuses user '{broker.user}': wrong name or password"
        case InvalidFrameError() if "Connection.Close" in str(error):  # the library drops its text
            return f"{broker} does not let user '{broker.user}' into virtual host '{vhost}', or does not have it"
        case TimeoutError():
            return f"{broker} does not answer within {OPEN_SECONDS:g} s"
        case ssl.SSLCertVerificationError():
            return f"{broker} shows a certificate that is not accepted: {error.verify_message.rstrip('.')}"
        case ssl.SSLError():
            return f"TLS with {broker} failed: {error.reason or _words(error)}"
        case ConnectionRefusedError():
            return f"{broker} refuses the connection"
        case asyncio.CancelledError():
            return f"{broker} was silent for too long"
        case socket.gaierror():
            return f"{broker}: no such host is known"
        case None:
            return f"{broker} closed the connection"
    return f"{broker}: {_words(error)}"


def _words(error: BaseException) -> str:
    """One line, the same each time: reasons are compared."""
    return _ADDRESS.sub("", " ".join(str(error).split())) or type(error).__name__
