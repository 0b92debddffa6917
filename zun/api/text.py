"""Foreign values in messages: shown whole when short, cut when long, never used as a format string."""

from __future__ import annotations

from typing import Any

LONGEST = 200


def cut(text: str, longest: int = LONGEST) -> str:
    """At most ``longest`` characters, the rest as an ellipsis."""
    return text if len(text) <= longest else text[:longest] + "..."


def shown(value: Any) -> str:
    """``repr`` for people; long or deep values are cut."""
    if isinstance(value, str):
        return repr(cut(value))
    try:
        return cut(repr(value))
    except RecursionError:
        return "<nested too deeply>"
