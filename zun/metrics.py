"""/metrics of a process, in Prometheus' text format, and its /healthcheck, on a listener of their own: not the API's.

Answered in threads, so that a slow reader keeps nobody waiting, and none for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal
from wsgiref.simple_server import WSGIServer

from prometheus_client import Gauge, start_http_server

from zun import open_files
from zun.conf import ConfigError
from zun.domain.vitals import Vitals

LOG = logging.getLogger(__name__)

Process = Literal["api", "compute", "proxy", "cni"]

_CLIENT_SECONDS = 10.0
"""Longest silence of a client."""
_PAUSE = 0.2
"""Seconds until a client is taken for whom there was no file: the server's own loop would try without one."""

_TASKS = Gauge("zun_tasks", "Tasks of the event loop now.")


@contextlib.contextmanager
def serving(conf: Any, process: Process, vitals: Vitals | None = None) -> Iterator[None]:
    """Meanwhile, if ``[metrics]`` has a port for this process. Called in its event loop, whose tasks are counted then
    (``all_tasks`` may be asked from another thread). Raises ConfigError when the port cannot be listened on."""
    with contextlib.suppress(RuntimeError):  # without a loop there are none
        loop = asyncio.get_running_loop()
        _TASKS.set_function(lambda: len(asyncio.all_tasks(loop)))
    address, port = conf.metrics.listen, conf.metrics[f"{process}_port"]
    if not port:
        yield
        return
    try:
        server, thread = start_http_server(port, address)
        _bound(server)
        if vitals is not None:
            server.set_app(_with_health(server.get_app(), vitals))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"[metrics]/{process}_port: {address}, port {port}, cannot be listened on: {reason}"
        ) from error
    LOG.info("action=metrics listen=%s port=%s result=ready", address, port)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _bound(server: WSGIServer) -> None:
    """Silent clients are given up; those for whom there is no file wait, and nothing spins meanwhile."""
    accept = server.get_request

    def get_request() -> tuple[socket.socket, Any]:
        try:
            link, peer = accept()
        except OSError as error:
            if error.errno in open_files.EXHAUSTED:
                time.sleep(_PAUSE)  # in the server's own thread
            raise
        if open_files.kept_back(link.fileno()):
            link.close()
            raise ConnectionAbortedError("no room for another client")
        link.settimeout(_CLIENT_SECONDS)
        return link, peer

    server.get_request = get_request  # type: ignore[method-assign]
    server.handle_error = _dropped  # type: ignore[method-assign, assignment]


def _dropped(request: Any, peer: Any) -> None:
    """Of the connection, not of the answer: that is told by who makes it."""
    LOG.debug("action=metrics peer=%s result=dropped reason=%s", peer, sys.exception())


def _with_health(others: Any, vitals: Vitals) -> Callable[..., Iterable[bytes]]:
    """``/healthcheck``: 200, or 503 with the loops that are silent; the rest as before."""

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/healthcheck":
            answer: Iterable[bytes] = others(environ, start_response)
            return answer
        silent = vitals.silent()
        body = f"These do not go on: {', '.join(silent)}\n" if silent else "OK\n"
        words = "503 Service Unavailable" if silent else "200 OK"
        start_response(words, [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")])
        return [body.encode()]

    return application
