"""Output cut between characters: clients decode every frame alone. Pure."""

from __future__ import annotations

_LONGEST = 4


class WholeCharacters:
    """Gives all bytes on, unchanged and in order; at most three stay behind until the rest of their character comes.
    What is no UTF-8 passes as it is."""

    def __init__(self) -> None:
        self.held = b""

    def feed(self, data: bytes) -> bytes:
        """What may be sent now; perhaps nothing."""
        data = self.held + data if self.held else data
        cut = len(data) - _unfinished(data)
        self.held = data[cut:]
        return data[:cut]

    def flush(self) -> bytes:
        """What stayed behind: its rest does not come."""
        rest, self.held = self.held, b""
        return rest


def _unfinished(data: bytes) -> int:
    """How many bytes at the end begin a character that more bytes could complete."""
    for back in range(1, min(_LONGEST, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 != 0x80:  # not in the middle of one
            return back if _length(byte) > back else 0
    return 0


def _length(lead: int) -> int:
    """Of a character that begins so; 1 for what begins none."""
    if 0xC2 <= lead <= 0xDF:
        return 2
    if 0xE0 <= lead <= 0xEF:
        return 3
    return 4 if 0xF0 <= lead <= 0xF4 else 1
