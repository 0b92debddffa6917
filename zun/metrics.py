"""/metrics of a process, in Prometheus' text format, on a listener of its own: neither the API's nor its balancer's.

Answered in threads, so that a slow reader keeps nobody waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any, Literal

from prometheus_client import Gauge, start_http_server

from zun.conf import ConfigError

LOG = logging.getLogger(__name__)

Process = Literal["api", "compute", "proxy", "cni"]

_TASKS = Gauge("zun_tasks", "Tasks of the event loop now.")


@contextlib.contextmanager
def serving(conf: Any, process: Process) -> Iterator[None]:
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
