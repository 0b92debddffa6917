"""Sessions that an agent of this node left when it was killed: their commands are ended, as those of any client that
vanished are, and their ends are written down."""

from __future__ import annotations

import logging
from datetime import datetime

from zun.compute.node import Node
from zun.domain.errors import EngineError, EngineUnreachable, ZunError
from zun.domain.session import Session, SessionKind
from zun.store import sessions

LOG = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


async def sweep(node: Node, before: datetime) -> None:
    """All that were connected ``before``; until the database and the engines have answered."""
    pause = _FIRST_PAUSE
    while not await _once(node, before):
        await node.clock.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


async def _once(node: Node, before: datetime) -> bool:
    """False: something could not be reached, and is tried again."""
    try:
        rows = await node.db.run(lambda found: sessions.unfinished(found, node.host, before))
    except ZunError as error:
        LOG.warning("action=session_left result=not read reason=%s", error.message)
        return False
    done = [await _end(node, row) for row in rows]
    return all(done)


async def _end(node: Node, row: Session) -> bool:
    try:
        if row.kind is SessionKind.EXEC and node.conf.relay.end_command:
            await _end_command(node, row)
        await node.db.run(lambda found: sessions.end(found, row.uuid, node.clock.now()))
    except EngineUnreachable as error:
        LOG.warning("action=session_left session=%s result=engine away reason=%s", row.uuid, error.text)
        return False
    except ZunError as error:
        LOG.warning("action=session_left session=%s result=end not written reason=%s", row.uuid, error.message)
        return False
    LOG.info("action=session_left session=%s container=%s result=ended", row.uuid, row.container_uuid)
    return True


async def _end_command(node: Node, row: Session) -> None:
    engine = node.pods if row.capsule_uuid else node.runtime
    if engine is None:
        return
    began = row.connected_at or row.created_at
    try:
        await engine.end_exec(row.container_uuid, row.exec_id or "", list(row.command or ()), began)
    except EngineUnreachable:
        raise
    except EngineError as error:  # the same again would say the same
        LOG.warning("action=session_left session=%s result=command left reason=%s", row.uuid, error.text)
