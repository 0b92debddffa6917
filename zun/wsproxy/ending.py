"""How a session ends: the code and reason that close its connection, and what the audit says. Pure."""

from __future__ import annotations

from dataclasses import dataclass

NORMAL = 1000
GOING_AWAY = 1001
BAD_DATA = 1007
REFUSED = 1008
"""By rule: the token, a limit."""
LOST = 1011
"""The node, or what we need ourselves."""
TRY_LATER = 1013
"""As many sessions as there may be."""

_REASON = 123
"""Bytes that a close frame has for it."""


@dataclass(frozen=True, slots=True)
class End:
    """``result`` is one word for the audit: ended, left, refused, limit, lost, stopped."""

    code: int
    reason: str
    result: str
    exit_code: int | None = None

    @property
    def short_reason(self) -> str:
        """As much of it as a close frame takes."""
        return self.reason.encode()[:_REASON].decode(errors="ignore")
