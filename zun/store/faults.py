"""What a driver's error means: the server gave the transaction up, the connection is lost, nothing can be done now.

Errors of our own making (a wrong statement, a broken constraint) are none of these.
"""

from __future__ import annotations

import sqlalchemy as sa

_GIVEN_UP_SQLSTATES = frozenset({"40001", "40P01", "55P03"})
"""PostgreSQL: serialization failure, deadlock, lock timeout."""

_GIVEN_UP_CODES = frozenset({1020, 1205, 1213, 1305})
"""MariaDB: record changed, lock wait timeout, deadlock; and the savepoint that went with a deadlock's transaction."""

_REFUSING_SQLSTATES = frozenset({"25006", "53100", "53200", "57P01", "57P02", "57P03"})
"""PostgreSQL: read-only, disk full, out of memory, shutting down, crashed, starting."""

_REFUSING_CODES = frozenset({1021, 1036, 1041, 1114, 1290, 1792, 1836})
"""MariaDB: disk full, table read only, out of memory, table full, server read only, transaction read only."""

_READ_ONLY_SQLSTATES = frozenset({"25006"})
_READ_ONLY_CODES = frozenset({1290, 1792, 1836})

_OUTSIDE = (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError, ConnectionError)


def given_up(error: Exception) -> bool:
    """Did the server roll the whole transaction back in favour of another?"""
    return _sqlstate(error) in _GIVEN_UP_SQLSTATES or _code(error) in _GIVEN_UP_CODES


def connection_lost(error: Exception) -> bool:
    """Is the connection gone? Before the commit that means: nothing was written."""
    return isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated


def unavailable(error: Exception) -> bool:
    """Cannot reach, locked, full, read-only, broken."""
    # A DatabaseError of no finer class is SQLite's "file is not a database", "disk image is malformed".
    if type(error) is sa.exc.DatabaseError or isinstance(error, _OUTSIDE):
        return True
    if connection_lost(error):
        return True
    return _sqlstate(error) in _REFUSING_SQLSTATES or _code(error) in _REFUSING_CODES


def read_only(error: Exception) -> bool:
    """Does this server, or this session with it, take no writes? After a failover another one may."""
    return _sqlstate(error) in _READ_ONLY_SQLSTATES or _code(error) in _READ_ONLY_CODES


def reason(error: Exception) -> str:
    """The driver's own words, the first line of them."""
    cause = getattr(error, "orig", None) or error
    return next(iter(str(cause).strip().splitlines()), type(cause).__name__)


def _sqlstate(error: Exception) -> str | None:
    found = getattr(getattr(error, "orig", None), "sqlstate", None)
    return found if isinstance(found, str) else None


def _code(error: Exception) -> int | None:
    """MariaDB's number; SQLite's and PostgreSQL's errors have none in that place."""
    arguments = getattr(getattr(error, "orig", None), "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else None
