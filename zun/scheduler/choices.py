"""What this process has chosen and others' looks may not show: without it, all who look at once choose one host.

A choice counts for each look that began before its claim was over. Part of the API process; no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class Choice:
    """``resources`` taken of a provider; ``over``: the turn in which the claim ended, None while it is at work."""

    provider_uuid: str
    resources: Mapping[str, int]
    over: int | None = None


class Look:
    """One look at candidates, from before they are read until its host is claimed."""

    def __init__(self, choices: Choices, began: int) -> None:
        self._choices = choices
        self.began = began

    def unseen(self) -> Mapping[str, Mapping[str, int]]:
        """provider -> resources that others have chosen of it, and that what was read may not show."""
        found: dict[str, dict[str, int]] = {}
        for choice in self._choices.made:
            if choice.over is None or choice.over > self.began:
                taken = found.setdefault(choice.provider_uuid, {})
                for name, amount in choice.resources.items():
                    taken[name] = taken.get(name, 0) + amount
        return found

    @contextmanager
    def choice(self, provider_uuid: str, resources: Mapping[str, int]) -> Iterator[None]:
        """Around the claim. One that is lost counts as long as one that is held: others may have won."""
        choice = Choice(provider_uuid, resources)
        self._choices.made.append(choice)
        try:
            yield
        finally:
            choice.over = self._choices.next_turn()


class Choices:
    """Those of one process."""

    def __init__(self) -> None:
        self.made: list[Choice] = []
        self._turn = 0
        self._looks: list[Look] = []

    def next_turn(self) -> int:
        """Later than all before."""
        self._turn += 1
        return self._turn

    @contextmanager
    def look(self) -> Iterator[Look]:
        """Begin before candidates are read."""
        look = Look(self, self.next_turn())
        self._looks.append(look)
        try:
            yield look
        finally:
            self._looks.remove(look)
            oldest = min((one.began for one in self._looks), default=self._turn)
            self.made = [choice for choice in self.made if choice.over is None or choice.over > oldest]
