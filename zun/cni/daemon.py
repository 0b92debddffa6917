"""zun-cni-daemon: plugs the interfaces of this node's capsules when the container runtime asks for it (S2.9).

POST /addNetwork (202), /delNetwork (204), /checkNetwork (204), as the plug-in sends them; GET /healthz. Faults are
CNI's error objects. Runs on the host, as root; knows neither the database nor the bus.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web
from prometheus_client import Counter, Histogram

from zun import metrics
from zun.cni.access import address_of, ensure_key, key_file, opens
from zun.cni.call import CRASHED, FAILED_IO, LATER, NOT_PLUGGED, Call, CniError, parse, version_of
from zun.cni.interfaces import Interfaces
from zun.cni.plugin import LARGEST
from zun.conf import ConfigError, cloud
from zun.domain.errors import Unavailable, ZunError
from zun.network.direct_active import ActivePorts
from zun.network.neutron_api import NeutronApi
from zun.plumbing.handover import Handovers
from zun.plumbing.plumber import Plumber

LOG = logging.getLogger(__name__)

GRACE = 5.0
"""Seconds that calls at work are given to end when the daemon is told to stop."""
_BODY_SECONDS = 10.0

_KNOWN = frozenset({"/addNetwork", "/delNetwork", "/checkNetwork", "/healthz"})
_CALLS = Counter("zun_cni_calls", "Calls of the plug-in by what they asked and their HTTP status.", ["call", "status"])
_SECONDS = Histogram(
    "zun_cni_call_seconds",
    "Time of a call of the plug-in.",
    ["call"],
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)


async def run(conf: Any, ready: Callable[[], None]) -> None:
    """Run until SIGTERM or SIGINT. Raises ConfigError, OSError when the address is taken."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with metrics.serving(conf, "cni"):
        await _run(conf, ready, stop)


async def _run(conf: Any, ready: Callable[[], None], stop: asyncio.Event) -> None:
    async with serving(conf):
        ready()
        await stop.wait()
        LOG.info("action=stop")


@contextlib.asynccontextmanager
async def serving(conf: Any) -> AsyncIterator[None]:
    """The daemon answers within the block. What is at work at its end has ``GRACE`` seconds, and is undone then. Raises
    ConfigError, OSError."""
    async with contextlib.AsyncExitStack() as stack:
        handovers = Handovers(conf.state_path)
        plumber = Plumber(handovers.owner, ovs_database=conf.network.ovsdb_connection)
        stack.push_async_callback(plumber.close)
        active = None
        if cloud.network_driver(conf) != "local":
            from zun.openstack.cloud import OpenStack  # loads keystoneauth

            openstack = OpenStack(conf)
            stack.push_async_callback(openstack.close)
            active = ActivePorts(NeutronApi(openstack.neutron))
            stack.push_async_callback(active.close)
        path = key_file(conf)
        key = "" if path is None else await asyncio.to_thread(ensure_key, path)
        routes = Routes(Interfaces(handovers, plumber, active, float(conf.cni_daemon.vif_active_timeout)), key)
        listening = stack.enter_context(_listening(conf))
        runner = web.AppRunner(
            routes.application(),
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=GRACE,
            handle_signals=False,
        )
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.SockSite(runner, listening).start()
        LOG.info("action=start address=%s result=ready", address_of(conf))
        yield


class Routes:
    """HTTP to and from ``Interfaces``. ``key`` empty: the socket's mode says who may ask."""

    def __init__(self, interfaces: Interfaces, key: str) -> None:
        self._interfaces = interfaces
        self._key = key

    def application(self) -> web.Application:
        """The routes."""
        application = web.Application(middlewares=[_counted, _faults_told], client_max_size=LARGEST)
        application.on_shutdown.append(self._finish)
        application.router.add_post("/addNetwork", self._add)
        application.router.add_post("/delNetwork", self._delete)
        application.router.add_post("/checkNetwork", self._check)
        application.router.add_get("/healthz", self._health)
        return application

    async def _add(self, request: web.Request) -> web.Response:
        call = await self._call(request, needs_namespace=True)
        began = time.monotonic()
        found = await self._interfaces.add(call)
        seconds = time.monotonic() - began
        LOG.info("action=add capsule=%s sandbox=%s seconds=%.3f", call.capsule, call.sandbox[:12], seconds)
        return web.json_response(found, status=202)

    async def _delete(self, request: web.Request) -> web.Response:
        call = await self._call(request, needs_namespace=False)
        await self._interfaces.delete(call)
        LOG.info("action=del capsule=%s sandbox=%s", call.capsule, call.sandbox[:12])
        return web.Response(status=204)

    async def _check(self, request: web.Request) -> web.Response:
        await self._interfaces.check(await self._call(request, needs_namespace=True))
        return web.Response(status=204)

    async def _finish(self, application: web.Application) -> None:
        await self._interfaces.finish(GRACE)

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "waiting": self._interfaces.waiting})

    async def _call(self, request: web.Request, *, needs_namespace: bool) -> Call:
        if self._key and not opens(request.headers.get("Zun-Cni-Key", ""), self._key):
            raise CniError(403, FAILED_IO, "The key is missing or wrong; run zun-cni-daemon install anew.")
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                body = await request.read()
        except TimeoutError as error:
            raise CniError(408, FAILED_IO, f"The body did not arrive within {_BODY_SECONDS:g} seconds.") from error
        request["body"] = body
        return parse(request.headers, body, needs_namespace=needs_namespace)


@web.middleware
async def _counted(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    began = time.monotonic()
    answer = await handler(request)
    call = request.path if request.path in _KNOWN else "other"
    _CALLS.labels(call, str(answer.status)).inc()
    _SECONDS.labels(call).observe(time.monotonic() - began)
    return answer


@web.middleware
async def _faults_told(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Every fault is an error object of CNI, and is in the log once."""
    try:
        return await handler(request)
    except web.HTTPException as refusal:
        error = CniError(refusal.status, FAILED_IO, f"{request.method} {request.path}: {refusal.reason}.")
    except CniError as told:
        error = told
    except Unavailable as away:
        error = CniError(503, LATER, away.message)
    except ZunError as failed:
        error = CniError(500, NOT_PLUGGED, failed.message)
    except Exception as crash:
        LOG.exception("action=%s result=crashed", request.path.strip("/"))
        error = CniError(500, CRASHED, f"zun-cni-daemon failed: {crash!r}; see its log")
    sandbox = request.headers.get("CNI-CONTAINERID", "")[:12]
    LOG.error(
        "action=%s sandbox=%r status=%d reason=%s", request.path.strip("/")[:40], sandbox, error.status, error.message
    )
    return web.json_response(error.body(version_of(request.get("body", b""))), status=error.status)


@contextlib.contextmanager
def _listening(conf: Any) -> Any:
    """Bound, and on a path open to root alone before anybody can connect. Raises OSError, ConfigError."""
    where = conf.cni_daemon.socket
    if not where:
        host = conf.cni_daemon.cni_daemon_host
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _bound(listening, (host, conf.cni_daemon.cni_daemon_port), address_of(conf))
            listening.listen()
            yield listening
        return
    path = Path(where)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        if path.is_socket():
            with contextlib.suppress(ConnectionRefusedError), socket.socket(socket.AF_UNIX) as probe:
                probe.connect(where)
                raise ConfigError(f"[cni_daemon]/socket {where}: another daemon listens there")
            path.unlink()
        _bound(listening, where, where)
        path.chmod(0o600)
        listening.listen()  # who asks from now on waits; nobody takes the socket for one that was left
        try:
            yield listening
        finally:
            path.unlink(missing_ok=True)


def _bound(listening: socket.socket, where: Any, name: str) -> None:
    try:
        listening.bind(where)
    except OSError as error:
        raise ConfigError(f"[cni_daemon]: {name} cannot be listened on: {os.strerror(error.errno or 0)}") from error
