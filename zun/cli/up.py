"""`zun up`: the whole product in one process, from an empty folder to a healthy API."""

from __future__ import annotations

import errno
import functools
import gc
import hashlib
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zun.cli.options import load_conf, opened
from zun.cli.preflight import require_engine, require_port
from zun.cli.problem import Problem
from zun.cli.state import StateDir, describe

LOG = logging.getLogger(__name__)


def run(state_dir: Path, port: int | None) -> None:
    """Runs until SIGTERM or SIGINT. Raises Problem, ConfigError, ZunError before anything was started."""
    import asyncio

    from zun.cli.process import run_process

    gc.disable()  # see run_process
    state = StateDir(state_dir)
    first = state.prepare(port)
    with state.lock():
        conf = load_conf(state)
        if port is not None:
            conf.set_override("port", port, group="api")
        require_port(conf.api.host_ip, conf.api.port)
        proxy = conf.websocket_proxy
        if proxy.embedded:
            require_port(proxy.wsproxy_host, proxy.wsproxy_port, f"[websocket_proxy]/wsproxy_port in {state.conf_file}")
        if conf.container_driver == "docker":
            require_engine(conf.docker.api_url)
        try:
            _migrate(conf, state)
            asyncio.run(_prepare_token(conf, state))
            ready = functools.partial(_say_ready, conf, state, first)
            run_process(conf, api=True, compute=True, proxy=proxy.embedded, ready=ready)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise Problem(f"A port was taken by another program meanwhile ({error}); start it again.") from error
            raise Problem(describe(error, state.root)) from error


def _migrate(conf: Any, state: StateDir) -> None:
    from zun.store import migrate

    with _full_disk_told(state):
        migrate.upgrade(conf.database.connection)


async def _prepare_token(conf: Any, state: StateDir) -> None:
    """Makes the admin token where it is missing or unknown, and openrc for the stock clients."""
    with _full_disk_told(state):
        async with opened(conf.database.connection) as db:
            token = state.read_admin_token()
            if token is None or not await _is_known(db, token):
                token = await _make_admin_token(db)
                state.write_admin_token(token)
    state.write_openrc(endpoint(conf, state), token)


@contextmanager
def _full_disk_told(state: StateDir) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if _is_disk_full(error):
            raise Problem(f"The disk of the state directory {state.root} is full.") from error
        raise


async def _is_known(db: Any, token: str) -> bool:
    """False when the database was replaced since the token file was written."""
    import sqlalchemy as sa

    from zun.store.tables import local_tokens

    digest = hashlib.sha256(token.encode()).hexdigest()
    wanted = sa.select(local_tokens.c.id).where(
        local_tokens.c.token_hash == digest, local_tokens.c.revoked_at.is_(None)
    )
    async with db.read() as connection:
        return (await connection.execute(wanted)).first() is not None


async def _make_admin_token(db: Any) -> str:
    from zun.domain.clock import SystemClock
    from zun.identity.local import create_token

    _, token = await create_token(db, SystemClock(), project_name="admin", role="admin", user_name="admin")
    return str(token)


def _is_disk_full(error: BaseException | None) -> bool:
    """SQLite says SQLITE_FULL, or an I/O error of a file it could not grow, somewhere below what was raised."""
    while error is not None:
        if isinstance(error, sqlite3.Error) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL:
            return True
        error = error.__cause__ or getattr(error, "orig", None) or error.__context__
    return False


def endpoint(conf: Any, state: StateDir) -> str:
    """The URL clients use; what a running product wrote wins over the configuration."""
    if state.running_pid() not in (None, os.getpid()) and (known := state.read_endpoint()):
        return known
    host = conf.api.host_ip
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"{'https' if conf.api.enable_ssl_api else 'http'}://{host}:{conf.api.port}/v1"


def _say_ready(conf: Any, state: StateDir, first: bool) -> None:
    LOG.info("ready url=%s state=%s first_start=%s", endpoint(conf, state), state.root, first)
