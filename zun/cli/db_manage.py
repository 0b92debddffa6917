"""``zun-db-manage``: the operator's tool for the database's schema."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from zun import conf
from zun.domain.errors import ZunError
from zun.store import migrate

app = typer.Typer(help="Manage the database's schema.", no_args_is_help=True, add_completion=False)

ConfigFile = Annotated[list[Path] | None, typer.Option("--config-file", help="Configuration file; may be repeated.")]
Revision = Annotated[str, typer.Argument(help="A revision of `history`, or head.")]


def _connection(files: list[Path] | None) -> str:
    loaded = conf.load(files=[str(file) for file in files] if files else None, prog="zun-db-manage")
    return str(loaded.database.connection)


@app.callback()
def common(context: typer.Context, config_file: ConfigFile = None) -> None:
    context.obj = config_file


@app.command()
def upgrade(context: typer.Context, revision: Revision = "head", config_file: ConfigFile = None) -> None:
    """Bring the database to a revision."""
    url = _connection(config_file or context.obj)
    migrate.upgrade(url, revision)
    typer.echo(f"Current DB revision is {migrate.current(url)}")


@app.command()
def version(context: typer.Context, config_file: ConfigFile = None) -> None:
    """Say which revision the database has."""
    typer.echo(f"Current DB revision is {migrate.current(_connection(config_file or context.obj))}")


@app.command()
def history() -> None:
    """List the revisions, oldest first."""
    for revision, text in migrate.history():
        typer.echo(f"{revision}  {text}")


@app.command()
def stamp(context: typer.Context, revision: Revision, config_file: ConfigFile = None) -> None:
    """Record a revision without running it."""
    url = _connection(config_file or context.obj)
    migrate.stamp(url, revision)
    typer.echo(f"Current DB revision is {migrate.current(url)}")


def main() -> None:
    try:
        app()
    except (ZunError, conf.ConfigError) as error:
        typer.echo(f"zun-db-manage: {error}", err=True)
        sys.exit(1)
