"""When a capsule's member that ended is started again: its policy, and a back-off as kubelet has it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

FIRST = 10
"""Seconds before the second restart; the first one is at once. Doubled from one to the next."""
LONGEST = 300
FORGIVEN_AFTER = 600.0
"""Seconds of running after which an end counts as the first one again."""


def after_end(
    policy: Mapping[str, str] | None, *, exit_code: int | None, restarts: int, back_off: int, ran: float
) -> int | None:
    """Seconds until the next start; None: it is not started again.

    ``exit_code`` None: how it ended is not known, which counts as a failure. ``restarts`` and ``back_off``: how often
    it was started again, and how long it waited last. ``ran``: seconds it ran this time.
    """
    name = (policy or {}).get("Name", "no")
    limit = int((policy or {}).get("MaximumRetryCount") or 0)
    if name not in ("always", "unless-stopped", "on-failure"):
        return None
    if name == "on-failure" and (exit_code == 0 or (limit and restarts >= limit)):
        return None
    if restarts == 0 or ran >= FORGIVEN_AFTER:
        return 0
    return min(LONGEST, max(FIRST, back_off * 2))
