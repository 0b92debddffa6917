"""`zun volume`: local volumes of a project, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from zun.cli.options import STATE_DIR, load_conf, table, with_database
from zun.cli.problem import Problem, told
from zun.cli.state import StateDir

app = typer.Typer(no_args_is_help=True, help="Local volumes.")

PROJECT = Annotated[str, typer.Option(help="Name of the project.")]


async def project_id(db: Any, name: str) -> str:
    """Id of a project. Raises Problem."""
    from zun.identity.local import list_projects

    for row in await list_projects(db):
        if row.name == name:
            return str(row.id)
    raise Problem(f"There is no project {name!r}; `zun project list` shows them.")


async def _volumes(db: Any, conf: Any, project: str) -> tuple[Any, Any]:
    from zun.domain.caller import Caller
    from zun.volume.local import LocalVolumes

    caller = Caller(user_id="local", project_id=await project_id(db, project), is_admin=False)
    return LocalVolumes(db, conf), caller


@app.command()
def create(
    name: str,
    project: PROJECT = "admin",
    size: Annotated[Optional[int], typer.Option(min=1, help="GiB; without it a plain folder.")] = None,  # noqa: UP045
    state_dir: STATE_DIR = Path("var"),
) -> None:
    """Make a volume and print its id."""
    conf = _conf(state_dir)

    async def work(db: Any) -> str:
        volumes, caller = await _volumes(db, conf, project)
        return str(await volumes.create(caller, size, name))

    typer.echo(with_database(state_dir, work))


@app.command("list")
def list_(project: PROJECT = "admin", state_dir: STATE_DIR = Path("var")) -> None:
    """List a project's volumes."""

    async def work(db: Any) -> list[Any]:
        import sqlalchemy as sa

        from zun.store.tables import local_volumes

        wanted = sa.select(local_volumes).where(local_volumes.c.project_id == await project_id(db, project))
        async with db.read() as connection:
            return list(await connection.execute(wanted.order_by(local_volumes.c.name)))

    rows = with_database(state_dir, work)
    table(["id", "name", "size"], [[row.uuid, row.name, f"{row.size} GiB" if row.size else "folder"] for row in rows])


@app.command()
def delete(volume: str, project: PROJECT = "admin", state_dir: STATE_DIR = Path("var")) -> None:
    """Delete a volume, by name or id, with its data. Refused while a container uses it."""
    conf = _conf(state_dir)

    async def work(db: Any) -> None:
        volumes, caller = await _volumes(db, conf, project)
        await volumes.delete(await volumes.find(caller, volume))

    with_database(state_dir, work)


def _conf(state_dir: Path) -> Any:
    with told():
        return load_conf(StateDir(state_dir))
