"""Control-P, Control-Q: what lets go of an attached terminal, where the engine does not look for it itself."""

from __future__ import annotations

KEYS = b"\x10\x11"


class DetachKeys:
    """Of one session. The first key is held until it is seen what follows, as Docker does."""

    def __init__(self) -> None:
        self._held = b""

    def pass_on(self, data: bytes) -> tuple[bytes, bool]:
        """What of the input is the program's, and whether the keys were typed; nothing after them is its."""
        before, keys, _ = (self._held + data).partition(KEYS)
        if keys:
            self._held = b""
            return before, True
        self._held = KEYS[:1] if before.endswith(KEYS[:1]) else b""
        return before.removesuffix(self._held), False
