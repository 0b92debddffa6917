"""/metrics of a process, in Prometheus' text format, and its /healthcheck, on a listener of their own: not the API's.

Answered in threads, so that a slow reader keeps nobody waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from prometheus_client import Gauge, start_http_server

from zun.conf import ConfigError
from zun.domain.vitals import Vitals

LOG = logging.getLogger(__name__)

Process = Literal["api", "compute", "proxy", "cni"]

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
