"""``[database]/connection`` as SQLAlchemy's asyncio drivers want it. The original's URLs are understood.

Also whether the driver is installed: drivers of database servers are extras of the package.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import sqlalchemy as sa

_DRIVERS = {
    # backend: (SQLAlchemy's name, module, extra)
    "sqlite": ("sqlite+aiosqlite", "aiosqlite", ""),
    "mysql": ("mysql+asyncmy", "asyncmy", "mysql"),
    "mariadb": ("mariadb+asyncmy", "asyncmy", "mysql"),
    "postgresql": ("postgresql+psycopg", "psycopg", "postgresql"),
}
KNOWN = tuple(_DRIVERS)

CONNECT_WITHIN = 10
"""Seconds in which a server has to take a connection."""

LOCK_WITHIN = 20
"""Seconds a statement waits for another transaction's lock; no transaction of ours lasts that long."""

SQLITE_WAITS = 30
"""Seconds for another process's lock on a SQLite file."""

_PYMYSQL_ONLY = ("charset", "use_unicode", "plugin", "binary_prefix", "autocommit", "sql_mode", "init_command")
"""Query arguments that name what is set here, or that only the original's driver has."""


def async_url(connection: str) -> sa.URL:
    """The URL with the asyncio driver of its dialect; ``mysql+pymysql://`` and ``postgresql+psycopg2://`` too."""
    url = sa.make_url(connection)
    backend = url.get_backend_name()
    if backend in _DRIVERS:
        url = url.set(drivername=_DRIVERS[backend][0])
    if backend in ("mysql", "mariadb"):
        url = url.difference_update_query(_PYMYSQL_ONLY)
    return url


def missing_driver(connection: str) -> str | None:
    """One sentence when the driver of the URL is not installed; None when it is."""
    backend = sa.make_url(connection).get_backend_name()
    _, module, extra = _DRIVERS.get(backend, ("", "", ""))
    if not module or find_spec(module) is not None:
        return None
    return (
        f"[database]/connection names {backend}, whose driver {module} is not installed; "
        f"install it with: pip install 'zun-ng[{extra}]'"
    )


def connect_args(url: sa.URL) -> dict[str, Any]:
    """What each new connection is opened with."""
    backend = url.get_backend_name()
    if backend == "sqlite":
        return {"timeout": SQLITE_WAITS}
    if backend == "postgresql":
        given = url.query.get("options", ())
        options = [given] if isinstance(given, str) else list(given)
        # Text that is sent and read is UTF-8, whatever the server's own locale.
        options += [f"-c lock_timeout={LOCK_WITHIN}s", "-c client_encoding=UTF8"]
        return {"connect_timeout": CONNECT_WITHIN, "application_name": "zun", "options": " ".join(options)}
    return {
        "connect_timeout": CONNECT_WITHIN,
        "charset": "utf8mb4",
        # What does not fit is refused, never cut: the other databases do the same.
        "init_command": f"SET SESSION sql_mode = 'TRADITIONAL', innodb_lock_wait_timeout = {LOCK_WITHIN}",
    }
