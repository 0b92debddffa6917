"""Interactive sessions: a row and a token for each that is asked for (scenario 4). Opening them is the proxy's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from zun.control.base import Control
from zun.control.container_record import Asked
from zun.control.containers_lookup import require_host
from zun.control.containers_queries import ask_node
from zun.domain.container import Container
from zun.domain.errors import ContainerNotFound, NoInteractiveFlag
from zun.domain.operation import CAPSULE
from zun.domain.session import Session, SessionKind, hash_token, new_token
from zun.store import containers, sessions


@dataclass(frozen=True, slots=True)
class Offered:
    """What the user gets: where the session can be opened, once."""

    proxy_url: str
    exec_id: str | None


async def execute(
    control: Control, asked: Asked, row: Container, command: Sequence[str], *, interactive: bool
) -> Offered:
    """A session with ``command``, which runs when it is opened; ``interactive``: in a terminal, with input
    (S4.1-S4.4). Raises Conflict and what ``ask_node`` does."""
    params = {"command": list(command), "tty": interactive, "stdin": interactive}
    exec_id = str(await ask_node(control, asked.caller, row, "open_exec", _of(row) | params))
    return await _offer(
        control, asked, row, SessionKind.EXEC, exec_id=exec_id, command=command, tty=interactive, stdin=interactive
    )


async def attach(control: Control, asked: Asked, row: Container) -> Offered:
    """A session with the container's main process; others go on beside it. Raises NoInteractiveFlag, Conflict,
    ContainerHostNotUp."""
    if not row.interactive:
        raise NoInteractiveFlag(f"Container {row.uuid} was not created with the interactive flag.")
    await require_host(control, asked.caller, row)
    return await _offer(control, asked, row, SessionKind.ATTACH, tty=row.tty, stdin=True)


async def resize_exec(control: Control, asked: Asked, row: Container, exec_id: str, *, height: int, width: int) -> None:
    """Terminal size of a session, open or not yet, in characters (S4.9). Raises InvalidValue for an unknown one."""
    params = {"exec_id": exec_id, "height": height, "width": width}
    await ask_node(control, asked.caller, row, "resize_exec", _of(row) | params)


def _of(row: Container) -> dict[str, Any]:
    return {"uuid": row.uuid} | ({CAPSULE: True} if row.capsule_uuid else {})


async def _offer(
    control: Control,
    asked: Asked,
    row: Container,
    kind: SessionKind,
    *,
    tty: bool,
    stdin: bool,
    exec_id: str | None = None,
    command: Sequence[str] | None = None,
) -> Offered:
    token, now = new_token(), control.clock.now()
    session = Session(
        uuid=str(uuid4()),
        token_hash=hash_token(token),
        kind=kind,
        container_uuid=row.uuid,
        capsule_uuid=row.capsule_uuid,
        host=str(row.host),
        exec_id=exec_id,
        command=None if command is None else list(command),
        tty=tty,
        stdin=stdin,
        project_id=row.project_id,
        user_id=asked.caller.user_id,
        request_id=asked.request_id,
        created_at=now,
        expires_at=now + timedelta(seconds=control.conf.websocket_proxy.token_ttl),
    )
    async with control.db.write() as connection:
        await containers.lock(connection, row.uuid)
        if await containers.get(connection, row.uuid) is None:  # deleted meanwhile: nothing would remove the row
            raise ContainerNotFound(row.uuid)
        await sessions.insert(connection, session)
    query = {"token": token, "uuid": row.uuid} | ({} if exec_id is None else {"exec_id": exec_id})
    return Offered(_url(control.conf.websocket_proxy.base_url, query), exec_id)


def _url(base: str, query: Mapping[str, str]) -> str:
    return f"{base}{'&' if '?' in base else '?'}{urlencode(query)}"
