"""Interactive commands that were asked for: ids, sizes of terminals, and what is unknown."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from zun.compute.execs import _KEPT, Execs
from zun.domain.errors import InvalidValue


class Terminal:
    """A session that notes the sizes it is given."""

    exit_code: int | None = None
    failure = ""

    def __init__(self) -> None:
        self.sizes: list[tuple[int, int]] = []

    async def write(self, data: bytes) -> None:
        raise AssertionError("not written to")

    async def close_stdin(self) -> None:
        raise AssertionError("not closed")

    async def resize(self, *, height: int, width: int) -> None:
        self.sizes.append((height, width))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b""

    async def end_command(self) -> None:
        raise AssertionError("not ended")


ID = "ab" * 32


async def test_size_wanted_before_the_command_runs_is_given_to_it_then() -> None:
    execs, terminal = Execs(), Terminal()
    execs.asked(ID, "a")
    await execs.resize("a", ID, height=10, width=20)
    await execs.resize("a", ID, height=43, width=132)
    await execs.started(ID, "a", terminal)
    assert terminal.sizes == [(43, 132)]
    await execs.resize("a", ID, height=25, width=80)
    assert terminal.sizes == [(43, 132), (25, 80)]


async def test_command_of_a_former_agent_is_resized_once_it_runs() -> None:
    execs, terminal = Execs(), Terminal()
    await execs.started(ID, "a", terminal)
    await execs.resize("a", ID, height=1, width=2)
    assert terminal.sizes == [(1, 2)]


@pytest.mark.parametrize("uuid", ["a", "b"])
async def test_unknown_ended_and_foreign_commands_are_refused(uuid: str) -> None:
    execs = Execs()
    execs.asked(ID, "a")
    if uuid == "a":
        await execs.started(ID, "a", Terminal())
        execs.ended(ID)
        execs.ended(ID)
    with pytest.raises(InvalidValue, match=ID):
        await execs.resize(uuid, ID, height=1, width=2)
    with pytest.raises(InvalidValue, match="no interactive command"):
        await execs.resize(uuid, "00" * 32, height=1, width=2)


async def test_commands_that_nobody_runs_are_forgotten_beyond_a_number() -> None:
    execs = Execs()
    ids = [f"{number:064x}" for number in range(_KEPT + 1)]
    for one in ids:
        execs.asked(one, "a")
    with pytest.raises(InvalidValue):
        await execs.resize("a", ids[0], height=1, width=2)
    await execs.resize("a", ids[1], height=1, width=2)
