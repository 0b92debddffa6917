"""One line for each session, and for each that was refused: who, what, from where, how long, how much, how it ended.

Tokens are never in it; what foreigners sent is quoted and cut.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from zun.domain.session import Session
from zun.wsproxy.ending import End

LOG = logging.getLogger("zun.wsproxy.audit")

_CUT = 80


@dataclass(frozen=True, slots=True)
class Told:
    """What a client says of itself before anything is known of it."""

    address: str
    ident: str = ""
    exec_id: str = ""


def write(told: Told, session: Session | None, end: End, *, seconds: float, bytes_in: int, bytes_out: int) -> None:
    """``bytes_in`` went to the container, ``bytes_out`` came from it."""
    if session is None:
        who = f"user=- project=- container={_quoted(told.ident)} capsule=- kind=- exec_id={_quoted(told.exec_id)}"
        who += " session=- host=- request_id=-"
    else:
        who = (
            f"user={session.user_id} project={session.project_id} container={session.container_uuid}"
            f" capsule={session.capsule_uuid or '-'} kind={session.kind} exec_id={session.exec_id or '-'}"
            f" session={session.uuid} host={session.host} request_id={session.request_id}"
        )
    exit_code = "-" if end.exit_code is None else end.exit_code
    LOG.info(
        "action=session result=%s %s from=%s seconds=%.3f bytes_in=%d bytes_out=%d exit_code=%s code=%d reason=%s",
        end.result,
        who,
        _quoted(told.address),
        seconds,
        bytes_in,
        bytes_out,
        exit_code,
        end.code,
        _quoted(end.reason, 200),
    )


def _quoted(text: str, longest: int = _CUT) -> str:
    """One word of a line: nobody writes lines or fields of their own with it."""
    text = text[:longest]
    if text and text.isascii() and text.isprintable() and not set(text) & set(' "=\\'):
        return text
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\x{ord(c):02x}" for c in text) + '"'
