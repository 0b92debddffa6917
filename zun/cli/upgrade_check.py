"""``zun-status upgrade check``: is this machine ready for this version? Exit 0 yes, 1 with a warning, 2 no.

It only looks. What it looks at: the database and its revision, the policy file, our account
in Keystone, the container engine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from zun import conf as configuration

app = typer.Typer(help="Tell the state of the installation.", no_args_is_help=True, add_completion=False)
upgrade = typer.Typer(help="Checks around an upgrade.", no_args_is_help=True)
app.add_typer(upgrade, name="upgrade")

ConfigFile = Annotated[list[Path] | None, typer.Option("--config-file", help="Configuration file; may be repeated.")]


class Code(IntEnum):
    """How a check ended, and the exit code of the worst of them."""

    SUCCESS = 0
    WARNING = 1
    FAILURE = 2


@dataclass(frozen=True, slots=True)
class Result:
    """One check's outcome; ``details`` is a sentence for the operator."""

    code: Code
    details: str = ""


def database(conf: Any) -> Result:
    """Reachable, and at the revision of this version."""
    from zun.domain.errors import ZunError
    from zun.store import migrate

    try:
        present = migrate.current(conf.database.connection)
        known = {revision for revision, _ in migrate.history()}
    except ZunError as error:
        return Result(Code.FAILURE, error.message)
    if present == migrate.HEAD:
        return Result(Code.SUCCESS)
    if present is None:
        return Result(Code.FAILURE, "The database has no tables yet; run: zun-db-manage upgrade")
    if present in known:
        return Result(
            Code.FAILURE, f"The database is at {present}, this version needs {migrate.HEAD}; run: zun-db-manage upgrade"
        )
    return Result(Code.FAILURE, f"The database is at {present}, which is newer than this version ({migrate.HEAD}).")


def policy_file(conf: Any) -> Result:
    """Readable, and YAML: JSON is what the original once took, and warns of."""
    from zun.api.policy import PolicyEnforcer, PolicyFileError

    try:
        PolicyEnforcer(conf)
    except PolicyFileError as error:
        return Result(Code.FAILURE, f"{error}.")
    path = Path(conf.api.policy_file) if conf.api.policy_file else None
    found = path if path is not None and path.is_absolute() else conf.find_file(str(path)) if path else None
    if found and _is_json(Path(found)):
        return Result(
            Code.WARNING, f"The policy file {found} is JSON; write it as YAML (oslopolicy-convert-json-to-yaml)."
        )
    return Result(Code.SUCCESS)


def _is_json(path: Path) -> bool:
    import json

    try:
        json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True


def engine(conf: Any) -> Result:
    """The engine answers; a machine that runs the API only has none, so that is a warning."""
    from zun.cli.preflight import require_engine
    from zun.cli.problem import Problem

    if conf.container_driver != "docker":
        return Result(Code.SUCCESS)
    try:
        require_engine(conf.docker.api_url)
    except Problem as problem:
        return Result(Code.WARNING, f"{problem} A machine without zun-compute needs none.")
    return Result(Code.SUCCESS)


def keystone(conf: Any) -> Result:
    """Where Keystone says who asks: our account logs in and may check tokens."""
    import asyncio

    from zun.cli.keystone_check import problem
    from zun.conf import cloud

    found = asyncio.run(problem(conf)) if cloud.in_cloud(conf) else None
    if found is None:
        return Result(Code.SUCCESS)
    bearable, sentence = found
    return Result(Code.WARNING if bearable else Code.FAILURE, sentence)


CHECKS: tuple[tuple[str, Callable[[Any], Result]], ...] = (
    ("Database", database),
    ("Policy File", policy_file),
    ("Keystone Account", keystone),
    ("Container Engine", engine),
)


@upgrade.callback()
def common() -> None:
    """Checks around an upgrade."""


@upgrade.command()
def check(config_file: ConfigFile = None) -> None:
    """Look whether this machine is ready: exit code 0 yes, 1 with a warning, 2 no."""
    conf = configuration.load(files=[str(file) for file in config_file] if config_file else None, prog="zun-status")
    results = [(name, look(conf)) for name, look in CHECKS]
    typer.echo("Upgrade Check Results")
    for name, result in results:
        typer.echo(f"Check: {name}\n  Result: {result.code.name.capitalize()}")
        if result.details:
            typer.echo(f"  Details: {result.details}")
    raise typer.Exit(max(result.code for _, result in results))


def main() -> None:
    """The console script ``zun-status``."""
    try:
        app()
    except configuration.ConfigError as error:
        typer.echo(f"zun-status: {error}", err=True)
        sys.exit(Code.FAILURE)
