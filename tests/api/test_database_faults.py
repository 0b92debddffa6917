"""A database that is read-only, locked, full or broken: 503 with one sentence and a correlation id, then well."""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx
import pytest
import sqlalchemy as sa

from tests.support.api import Api, fault
from zun.store.database import Database, DatabaseUnavailable

BODY = {"registry": {"domain": "d", "password": "p" * 9000}}
Fault = Callable[[Api], AbstractAsyncContextManager[None]]


async def _pragma(api: Api, *texts: str) -> None:
    """On the one connection that writes."""
    async with api.control.db._writer.connect() as connection:
        raw = await connection.get_raw_connection()
        for text in texts:
            await (await raw.driver_connection.execute(f"PRAGMA {text}")).close()  # type: ignore[union-attr]


@asynccontextmanager
async def read_only(api: Api) -> AsyncIterator[None]:
    await _pragma(api, "query_only = ON")
    try:
        yield
    finally:
        await _pragma(api, "query_only = OFF")


@asynccontextmanager
async def locked(api: Api) -> AsyncIterator[None]:
    await _pragma(api, "busy_timeout = 50")
    other = sqlite3.connect(api.folder / "zun.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


@asynccontextmanager
async def full(api: Api) -> AsyncIterator[None]:
    await _pragma(api, "max_page_count = 1")  # SQLite takes the present size for that
    try:
        yield
    finally:
        await _pragma(api, "max_page_count = 1000000")


def _check(answer: httpx.Response, caplog: pytest.LogCaptureFixture) -> None:
    error = fault(answer)
    assert (error["status"], error["title"]) == (503, "The database does not answer now. Try again later.")
    correlation = re.search(r"Error Correlation id is: ([0-9a-f-]{36})$", error["detail"])
    assert correlation
    assert not re.search(r"sqlite|Traceback|select|insert|disk", answer.text, re.IGNORECASE)
    (logged,) = [one for one in caplog.records if correlation[1] in one.getMessage()]
    assert logged.exc_info is None, "the reason is in the line; nobody needs the stack"


@pytest.mark.parametrize("broken", [read_only, locked, full])
async def test_writes_are_refused_reads_go_on_and_it_recovers(
    api: Api, broken: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    member = api.client()
    async with broken(api):
        with caplog.at_level(logging.INFO):
            answer = await member.post("/v1/registries", json=BODY)
            while answer.status_code == 201:  # pages that are free are filled first
                answer = await member.post("/v1/registries", json=BODY)
        _check(answer, caplog)
        kept = (await member.get("/v1/registries")).json()["registries"]
    assert (await member.post("/v1/registries", json=BODY)).status_code == 201
    assert len((await member.get("/v1/registries")).json()["registries"]) == len(kept) + 1


async def test_a_file_that_is_no_database_is_503(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    await api.control.db.close()
    for file in api.folder.glob("zun.sqlite*"):
        file.write_bytes(b"no database at all, " * 1000)
    with caplog.at_level(logging.INFO):
        _check(await api.client().get("/v1/registries"), caplog)


async def test_a_mistake_of_ours_is_not_taken_for_an_outage(api: Api) -> None:
    database: Database = api.control.db
    with pytest.raises(sa.exc.IntegrityError):
        async with database.write() as connection:
            await connection.exec_driver_sql("INSERT INTO registries (uuid) VALUES (NULL)")
    with pytest.raises(DatabaseUnavailable):
        async with database.read() as connection:
            await connection.exec_driver_sql("SELECT * FROM no_such_table")
