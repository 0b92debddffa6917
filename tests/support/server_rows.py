"""What a database server has, for code that is not async."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from zun.store.address import async_url


def read(url: str, statement: str, parameters: Sequence[Any] = ()) -> list[Mapping[str, Any]]:
    """The rows of a statement with ``?`` for each parameter; nothing where there are no tables yet."""
    found: list[list[Mapping[str, Any]] | BaseException] = []

    def work() -> None:  # in a thread, as an event loop may run in the caller's
        try:
            found.append(asyncio.run(_read(url, statement, parameters)))
        except BaseException as error:  # told to the caller
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    [result] = found
    if isinstance(result, BaseException):
        raise result
    return result


async def _read(url: str, statement: str, parameters: Sequence[Any]) -> list[Mapping[str, Any]]:
    named = {f"p{place}": value for place, value in enumerate(parameters)}
    for name in named:
        statement = statement.replace("?", f":{name}", 1)
    engine = create_async_engine(async_url(url))
    try:
        async with engine.connect() as connection:
            tables = await connection.run_sync(lambda raw: sa.inspect(raw).get_table_names())
            return (
                [dict(row) for row in (await connection.execute(sa.text(statement), named)).mappings()]
                if tables
                else []
            )
    finally:
        await engine.dispose()
