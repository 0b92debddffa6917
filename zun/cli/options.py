"""Options shared by the commands, and the way each command reaches the database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from zun.cli.problem import Problem, told
from zun.cli.state import StateDir

if TYPE_CHECKING:
    from zun.store.database import Database

Answer = TypeVar("Answer")

_UNBOUNDED = 1000  # columns

STATE_DIR = Annotated[
    Path, typer.Option("--state-dir", envvar="ZUN_STATE_DIR", file_okay=False, help="Where zun.conf and all state lie.")
]


def load_conf(state: StateDir) -> Any:
    """The state directory's zun.conf. Raises ConfigError, and Problem where there is none."""
    from zun import conf

    if not state.conf_file.exists():
        raise Problem(
            f"There is no {state.conf_file}; start the product first (`make up` or `zun up`), or name --state-dir."
        )
    return conf.load([], files=[str(state.conf_file)])


def with_database(state_dir: Path, work: Callable[[Database], Coroutine[Any, Any, Answer]]) -> Answer:
    """Runs ``work`` on the database of the state directory; problems end the process with one sentence."""
    import asyncio

    with told():
        conf = load_conf(StateDir(state_dir))

        async def run() -> Answer:
            async with opened(conf.database.connection) as db:
                return await work(db)

        return asyncio.run(run())


@asynccontextmanager
async def opened(connection: str) -> AsyncIterator[Database]:
    """A database that is closed afterwards."""
    from zun.store.database import Database

    db = Database(connection, pool_size=1)
    try:
        yield db
    finally:
        await db.close()


def table(columns: list[str], rows: list[list[str]]) -> None:
    """A plain table on stdout. Nothing is cut, so that ids can be copied and piped."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        shown.add_row(*(Text(cell, no_wrap=True) for cell in row))
    Console(width=_UNBOUNDED, highlight=False).print(shown)
