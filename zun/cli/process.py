"""One running process of the product: its event loop, its logs, and how it says why it stopped."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
from collections.abc import Callable, Coroutine
from typing import Any

from zun import open_files
from zun.cli import systemd
from zun.domain.vitals import Vitals

_OPEN_FILES = 65536
LOG_FORMAT = "%(asctime)s.%(msecs)03d %(process)d %(levelname)s %(name)s %(message)s"


def run_process(
    conf: Any, *, api: bool, compute: bool, proxy: bool = False, ready: Callable[[], None] | None = None
) -> None:
    """Runs until SIGTERM or SIGINT."""
    gc.disable()  # until all is loaded: collecting between imports finds nothing and costs a tenth of the start
    from zun import wiring

    _run(
        conf,
        lambda started, vitals: wiring.run(conf, api=api, compute=compute, proxy=proxy, ready=started, vitals=vitals),
        ready,
    )


def run_proxy(conf: Any) -> None:
    """The proxy of sessions alone, until SIGTERM or SIGINT: it loads neither API nor agent."""
    gc.disable()
    from zun.wsproxy import service

    async def run(started: Callable[[], None], vitals: Vitals) -> None:
        if not conf.websocket_proxy.docker_tcp:
            await service.run(conf, started, vitals=vitals)
            return
        from zun import docker_door

        async with docker_door.opened(conf) as door:
            await service.run(conf, started, docker=door.connect, vitals=vitals)

    _run(conf, run)


def _run(
    conf: Any,
    main: Callable[[Callable[[], None], Vitals], Coroutine[Any, Any, None]],
    ready: Callable[[], None] | None = None,
) -> None:
    import uvloop

    def started() -> None:
        gc.freeze()
        gc.enable()
        systemd.notify("READY=1")
        if ready is not None:
            ready()

    async def watched() -> None:
        vitals = Vitals()
        watching = [
            asyncio.create_task(systemd.watch(vitals), name="health"),
            asyncio.create_task(open_files.watch(), name="open-files"),
        ]
        try:
            await main(started, vitals)
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    set_up_logs(conf)
    allow_connections()
    try:
        uvloop.run(watched())
    finally:
        systemd.notify("STOPPING=1")


def allow_connections() -> None:
    """As many open files as the hard limit lets us: the usual soft limit of 1024 ends with the 1000th client."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def set_up_logs(conf: Any) -> None:
    """oslo.log with the operator's options; to stderr unless [DEFAULT]/log_file says otherwise."""
    from oslo_log import log

    conf.set_default("logging_default_format_string", LOG_FORMAT)
    conf.set_default("logging_context_format_string", LOG_FORMAT)
    log.setup(conf, "zun")
    for name in ("aiosqlite", "asyncio", "uvicorn.access", "sqlalchemy.engine"):
        logging.getLogger(name).setLevel(logging.WARNING)
