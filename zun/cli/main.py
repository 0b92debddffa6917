"""The `zun` command. Imports nothing heavy here: each command loads what it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from zun.cli import token, volume
from zun.cli.options import STATE_DIR
from zun.cli.problem import told

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="Zun on one machine."
)
app.add_typer(token.app, name="token")
app.add_typer(volume.app, name="volume")
project_app = typer.Typer(no_args_is_help=True, help="Projects of the embedded identity.")
app.add_typer(project_app, name="project")


@app.command()
def up(
    state_dir: STATE_DIR = Path("var"),
    port: Annotated[
        Optional[int],  # noqa: UP045 - typer reads the annotation at run time
        typer.Option(envvar="ZUN_PORT", min=1, max=65535, help="Listen on this port instead of the one in zun.conf."),
    ] = None,
) -> None:
    """Run API and agent in this process until SIGTERM; makes everything it needs on the first start."""
    from zun.cli.up import run

    with told():
        run(state_dir, port)


@app.command()
def status(state_dir: STATE_DIR = Path("var")) -> None:
    """Say what runs, where, and how many containers there are; exit code 1 when the product is not healthy."""
    from zun.cli.status import show

    with told():
        show(state_dir)


@project_app.command("list")
def project_list(state_dir: STATE_DIR = Path("var")) -> None:
    """List the projects that tokens were made for."""
    token.show_projects(state_dir)


@app.command()
def version() -> None:
    """Print the version."""
    import zun

    typer.echo(zun.__version__)


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
