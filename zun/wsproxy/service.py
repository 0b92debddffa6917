"""The proxy as a process, or as a part of one: its address, its own TLS, its database and its way to the relays."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from zun import metrics, stopping
from zun.conf import ConfigError
from zun.domain.clock import Clock
from zun.domain.session import Session
from zun.domain.vitals import Vitals
from zun.relay import control, tls
from zun.store.clock import DatabaseClock
from zun.store.database import Database
from zun.wsproxy.ending import LOST, End
from zun.wsproxy.far import Far
from zun.wsproxy.relay_link import RelayLink
from zun.wsproxy.server import Connect, Proxy, RelayUnreachable

LOG = logging.getLogger(__name__)


async def run(
    conf: Any,
    ready: Callable[[], None] | None = None,
    *,
    docker: Connect | None = None,
    vitals: Vitals | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT. ``docker``: the way past relays, where it is wanted. Raises ConfigError,
    DatabaseUnavailable, or OSError when the port is taken."""
    stop = asyncio.Event()
    db = Database.of(conf)
    try:
        with listen(conf) as listening, metrics.serving(conf, "proxy", vitals), stopping.on_signals(stop):
            await db.wait_until_up(conf.database.max_retries, conf.database.retry_interval)
            clock = DatabaseClock(db)
            async with clock.followed(), serving(conf, db, clock, listening, docker):
                if ready is not None:
                    ready()
                await stop.wait()
    finally:
        await db.close()


@asynccontextmanager
async def serving(
    conf: Any, db: Database, clock: Clock, listening: socket.socket, docker: Connect | None = None
) -> AsyncIterator[None]:
    """Takes sessions meanwhile. Raises ConfigError for certificates that are missing or cannot be used."""
    section = conf.websocket_proxy
    link = RelayLink(lambda: tls.proxy_context(conf), section.connect_timeout)
    try:
        await link.prepare()
    except tls.NoCertificates as error:
        if docker is None or conf.relay.ca_file:
            raise ConfigError(f"{error}.") from error
        LOG.warning("action=wsproxy result=nodes with a relay have no sessions reason=%s", error)

    async def connect(session: Session, address: str) -> Far:
        if not address.startswith(control.DOCKER):
            return await link.connect(session, address)
        if docker is None:
            LOG.warning(
                "action=session session=%s docker=%s result=[websocket_proxy]/docker_tcp is off", session.uuid, address
            )
            raise RelayUnreachable(End(LOST, "The node of the container has no relay.", "lost"))
        return await docker(session, address.removeprefix(control.DOCKER))

    proxy = Proxy(conf, db, clock, connect)
    async with proxy.serving(listening, own_tls(conf)):
        LOG.info(
            "action=wsproxy listen=%s port=%s url=%s result=ready",
            section.wsproxy_host,
            section.wsproxy_port,
            section.base_url,
        )
        yield


def listen(conf: Any) -> socket.socket:
    """The bound socket. Raises OSError."""
    section = conf.websocket_proxy
    family = socket.AF_INET6 if ":" in section.wsproxy_host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((section.wsproxy_host, section.wsproxy_port))
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening


def own_tls(conf: Any) -> ssl.SSLContext | None:
    """What clients see; None: plain, behind a balancer or on one machine. Raises ConfigError."""
    section = conf.websocket_proxy
    if not section.cert:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(section.cert, section.key or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"[websocket_proxy]/cert {section.cert} or key cannot be used: {error}.") from error
    return context
