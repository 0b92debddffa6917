"""An interactive session: one exec or attach that was asked for and may be opened once (scenario 4). Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class SessionKind(StrEnum):
    """``exec`` starts a process of its own; ``attach`` joins the container's main one."""

    EXEC = "exec"
    ATTACH = "attach"


@dataclass(frozen=True, slots=True)
class Session:
    """One row of ``sessions``; times are naive UTC. Of the token there is only its hash (S4.3)."""

    uuid: str
    token_hash: str = dataclasses.field(repr=False)
    kind: SessionKind
    container_uuid: str
    capsule_uuid: str | None  # of a member
    host: str
    exec_id: str | None  # 64 hexadecimal digits; None for attach
    command: Sequence[str] | None  # None for attach
    tty: bool
    stdin: bool
    project_id: str
    user_id: str
    request_id: str
    created_at: datetime
    expires_at: datetime  # if it is not opened until then
    opened_at: datetime | None = None  # by a proxy
    connected_at: datetime | None = None  # to the node's relay
    ended_at: datetime | None = None

    def refusal(self, moment: datetime) -> str | None:
        """Why it may not be opened any more, in words for its owner; None if it may."""
        if self.opened_at is not None:
            return "The token was used already; ask for a new session."
        if moment >= self.expires_at:
            return "The token has expired; ask for a new session."
        return None


def new_token() -> str:
    """256 random bits for a URL."""
    return secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """What is kept of a token: SHA-256, hexadecimal."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
