"""Which session a token opens, if any: looked up by its hash, used once (S4.6, S4.7)."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from zun.domain.clock import Clock
from zun.domain.errors import ZunError
from zun.domain.service import COMPUTE
from zun.domain.session import Session, hash_token
from zun.store import containers, services, sessions
from zun.store.database import Database
from zun.wsproxy.ending import LOST, REFUSED, End


class NotAdmitted(Exception):
    """``end`` says why; ``session`` is known where the token is of one."""

    def __init__(self, code: int, reason: str, session: Session | None = None) -> None:
        super().__init__(reason)
        self.end = End(code, reason, "refused" if code == REFUSED else "lost")
        self.session = session


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the address asks for; empty where it does not say."""

    token: str
    ident: str
    exec_id: str

    @classmethod
    def of(cls, path: str) -> Wanted:
        """From the query of any path."""
        try:
            query = parse_qs(urlsplit(path).query, keep_blank_values=True, max_num_fields=50)
        except ValueError:
            query = {}
        token, ident, exec_id = (query.get(name, [""])[0] for name in ("token", "uuid", "exec_id"))
        return cls(token, ident, exec_id)


async def admit(db: Database, clock: Clock, wanted: Wanted) -> tuple[Session, str]:
    """The session, opened now, and its node's relay (``host:port``). Raises NotAdmitted."""
    try:
        session, relay = await _find(db, wanted)
        refusal = session.refusal(clock.now())
        if refusal is None:
            if relay is None:  # the token stays good
                raise NotAdmitted(LOST, "The node of the container offers no sessions now.", session)
            if await db.run(lambda connection: sessions.open_once(connection, session.uuid, clock.now())):
                return session, relay
            refusal = "The token was used already; ask for a new session."
    except ZunError as error:
        raise NotAdmitted(LOST, "The session cannot be looked up now; try again.") from error
    raise NotAdmitted(REFUSED, refusal, session)


async def _find(db: Database, wanted: Wanted) -> tuple[Session, str | None]:
    if not wanted.token:
        raise NotAdmitted(REFUSED, "The address has no token.")
    wanted_hash = hash_token(wanted.token)
    async with db.read() as connection:
        session = await sessions.by_hash(connection, wanted_hash)
        if session is None or not hmac.compare_digest(session.token_hash, wanted_hash):
            raise NotAdmitted(REFUSED, "The token is not valid.")
        container = await containers.get(connection, session.container_uuid)
        if container is None or wanted.ident not in (container.uuid, container.name):
            raise NotAdmitted(REFUSED, "The token is not of this container.", session)
        if wanted.exec_id != (session.exec_id or ""):
            raise NotAdmitted(REFUSED, "The token is not of this exec session.", session)
        service = await services.get(connection, session.host, COMPUTE)
    return session, service["relay"] if service else None
