"""`zun token`: tokens and projects of the embedded identity. A token is shown once; only its hash is kept."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from zun.cli.options import STATE_DIR, load_conf, table, with_database
from zun.cli.problem import Problem, fail, told
from zun.cli.state import StateDir, describe, write_private

app = typer.Typer(no_args_is_help=True, help="Tokens of the embedded identity.")

_SPAN = re.compile(r"(\d+)([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Role(StrEnum):
    """What the holder may do in the project."""

    member = "member"
    reader = "reader"
    admin = "admin"


def parse_expires(text: str, now: datetime) -> datetime:
    """``12h``, ``30d``, ``2w`` from now, or an ISO 8601 time; naive UTC. Raises Problem."""
    if span := _SPAN.fullmatch(text.strip()):
        try:
            return now + timedelta(**{_UNITS[span[2]]: int(span[1])})
        except OverflowError as error:
            raise Problem(f"--expires {text!r} is too far away.") from error
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise Problem(f"--expires has to be a span such as 12h or 30d, or an ISO 8601 time, not {text!r}.") from error
    when = when.astimezone(UTC).replace(tzinfo=None) if when.tzinfo else when
    if when <= now:
        raise Problem(f"--expires {text!r} has passed already.")
    return when


@app.command()
def create(
    project: Annotated[str, typer.Option(help="Name of the project; made when there is none.")],
    role: Annotated[Role, typer.Option(help="What the holder may do.")] = Role.member,
    user: Annotated[Optional[str], typer.Option(help="Name shown for the holder.")] = None,  # noqa: UP045
    expires: Annotated[Optional[str], typer.Option(help="12h, 30d, or an ISO 8601 time in UTC.")] = None,  # noqa: UP045
    openrc: Annotated[Optional[Path], typer.Option(help="Write a file for the stock clients.")] = None,  # noqa: UP045
    state_dir: STATE_DIR = Path("var"),
) -> None:
    """Make a token for a project and print it. It cannot be shown again."""
    from zun.domain.clock import SystemClock

    clock = SystemClock()
    with told():
        until = parse_expires(expires, clock.now()) if expires else None

    async def work(db: Any) -> tuple[str, str]:
        from zun.identity.local import create_token

        made: tuple[str, str] = await create_token(
            db, clock, project_name=project, role=role.value, user_name=user, expires=until
        )
        return made

    uuid, secret = with_database(state_dir, work)
    if openrc is None:
        typer.echo(secret)
        return
    _write_openrc(state_dir, openrc, secret)
    typer.echo(f"Token {uuid}; to use it: . {openrc}")


def _write_openrc(state_dir: Path, target: Path, secret: str) -> None:
    from zun.cli.up import endpoint

    state = StateDir(state_dir)
    with told():
        conf = load_conf(state)
        try:
            write_private(target, state.openrc_text(endpoint(conf, state), secret))
        except OSError as error:
            raise Problem(describe(error, target.parent)) from error


@app.command("list")
def list_(state_dir: STATE_DIR = Path("var")) -> None:
    """List the tokens (not their secrets)."""

    async def work(db: Any) -> list[Any]:
        from zun.identity.local import list_tokens

        return list(await list_tokens(db))

    rows = with_database(state_dir, work)
    now = datetime.now(UTC).replace(tzinfo=None)
    table(
        ["id", "project", "user", "role", "created", "expires", "state"],
        [
            [
                row.uuid,
                row.project_name,
                row.user_name,
                row.role,
                _when(row.created_at),
                _when(row.expires_at),
                _state(row, now),
            ]
            for row in rows
        ],
    )


def _when(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M") if moment else "never"


def _state(row: Any, now: datetime) -> str:
    if row.revoked_at:
        return "revoked"
    return "expired" if row.expires_at and row.expires_at <= now else "valid"


@app.command()
def revoke(ident: Annotated[str, typer.Argument(metavar="ID")], state_dir: STATE_DIR = Path("var")) -> None:
    """Make a token worthless, within \\[local]/token_cache_seconds."""
    from zun.domain.clock import SystemClock

    async def work(db: Any) -> bool:
        from zun.identity.local import revoke_token

        return bool(await revoke_token(db, SystemClock(), ident))

    if not with_database(state_dir, work):
        fail(f"There is no valid token {ident}.")
    typer.echo(f"Token {ident} is revoked.")


def show_projects(state_dir: Path) -> None:
    """`zun project list`."""

    async def work(db: Any) -> list[Any]:
        from zun.identity.local import list_projects

        return list(await list_projects(db))

    table(["id", "name"], [[row.id, row.name] for row in with_database(state_dir, work)])
