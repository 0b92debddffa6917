"""What interactive sessions have to do on every engine. Imported whole by the test module, which defines ``bench``."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from tests.support.sessions import LIMIT, Screen, SessionsBench, long_sleep, noise, processes
from tests.support.wait import eventually
from zun.domain.errors import EngineConflict, EngineError, EngineNotFound

EVERY_BYTE = bytes(range(256))


async def test_bytes_pass_unchanged_both_ways(bench: SessionsBench) -> None:
    uuid = await bench.running()
    sent = EVERY_BYTE * 4 + noise(1 << 20)
    async with bench.exec(uuid, "cat") as session:
        screen = Screen(session)

        async def give() -> None:
            await session.write(sent)
            await session.close_stdin()

        giving = asyncio.create_task(give())
        assert await screen.rest() == sent
        await giving
    assert session.exit_code == 0


async def test_end_of_input_ends_the_command_and_may_be_told_twice(bench: SessionsBench) -> None:
    uuid = await bench.running()
    async with bench.exec(uuid, "cat") as session:
        await session.write(b"last words")
        await session.close_stdin()
        await session.close_stdin()
        assert await Screen(session).rest() == b"last words"
    assert session.exit_code == 0


async def test_exit_code_of_a_command(bench: SessionsBench) -> None:
    uuid = await bench.running()
    for code in (0, 9):
        async with bench.exec(uuid, "sh", "-c", f"exit {code}", stdin=False) as session:
            assert await Screen(session).rest() == b""
        assert session.exit_code == code


async def test_terminal_is_resized_and_left(bench: SessionsBench) -> None:
    uuid = await bench.running()
    async with bench.exec(uuid, "sh", tty=True) as session:
        screen = Screen(session)
        await screen.until(b"# ")
        await session.resize(height=43, width=132)
        await session.write(b"stty size\n")
        await screen.until(b"43 132\r\n")
        await session.resize(height=25, width=80)
        await session.write(b"stty size\n")
        await screen.until(b"25 80\r\n")
        await session.write(b"exit 4\n")
        await screen.rest()
    assert session.exit_code == 4


async def test_control_c_reaches_the_terminals_program(bench: SessionsBench) -> None:
    uuid = await bench.running()
    async with bench.exec(uuid, "sh", tty=True) as session:
        screen = Screen(session)
        await screen.until(b"# ")
        if bench.real:
            program = long_sleep()
            await session.write(f"{' '.join(program)}\n".encode())
            await eventually(lambda: processes(program), LIMIT, "the program runs")
        await session.write(b"\x03")
        await screen.until(b"^C")
        await screen.until(b"# ")
        await session.write(b"echo still here\n")
        await screen.until(b"\r\nstill here\r\n")


async def test_without_a_terminal_a_resize_is_no_error(bench: SessionsBench) -> None:
    uuid = await bench.running()
    async with bench.exec(uuid, "cat") as session:
        await session.resize(height=43, width=132)
        await session.close_stdin()
        assert await Screen(session).rest() == b""
        await session.resize(height=43, width=132)


async def test_two_sessions_do_not_meet(bench: SessionsBench) -> None:
    uuid = await bench.running()
    async with bench.exec(uuid, "cat") as one, bench.exec(uuid, "cat") as other:
        await one.write(b"one")
        await other.write(b"other")
        await one.close_stdin()
        assert await Screen(one).rest() == b"one"
        await other.close_stdin()
        assert await Screen(other).rest() == b"other"


async def test_a_command_is_run_once(bench: SessionsBench) -> None:
    if bench.port.name == "cri":
        pytest.skip("CRI keeps no commands that do not run: the session's row is used once, by the relay")
    uuid = await bench.running()
    exec_id = await bench.port.open_exec(uuid, ["cat"], tty=False, stdin=True)
    async with bench.port.exec_session(uuid, exec_id, ["cat"], tty=False, stdin=True) as session:
        await session.close_stdin()
        await Screen(session).rest()
    with pytest.raises(EngineError):
        async with bench.port.exec_session(uuid, exec_id, ["cat"], tty=False, stdin=True):
            raise AssertionError("it ran again")


async def test_output_waits_for_a_slow_reader(bench: SessionsBench) -> None:
    uuid = await bench.running()
    size = 8 << 20
    async with bench.exec(uuid, "head", "-c", str(size), "/dev/zero", stdin=False) as session:
        pieces, found = aiter(session), 0
        while piece := await anext(pieces, b""):
            assert len(piece) <= 64 * 1024
            found += len(piece)
            await asyncio.sleep(0)
    assert (found, session.exit_code) == (size, 0)


async def test_input_waits_for_a_program_that_does_not_read(bench: SessionsBench) -> None:
    uuid = await bench.running()
    async with bench.exec(uuid, "sleep", "86401") as session:
        given = 0

        async def give() -> None:
            nonlocal given
            while True:
                await session.write(bytes(65536))
                given += 65536

        giving = asyncio.create_task(give())
        await _stands_still(lambda: given)
        print(f"{given} bytes were taken ahead")
        assert not giving.done()
        assert given <= 4 << 20, "kernel and engine take no more ahead"
        await session.end_command()
        giving.cancel()
        await asyncio.gather(giving, return_exceptions=True)


async def test_command_is_ended_with_all_it_started(bench: SessionsBench) -> None:
    uuid = await bench.running()
    async with bench.exec(uuid, "cat") as other, bench.exec(uuid, "sleep", "86402") as session:
        await session.end_command()
        await Screen(session).rest()
        await session.end_command()
        await other.write(b"alive")
        await other.close_stdin()
        assert await Screen(other).rest() == b"alive"
    assert other.exit_code == 0
    assert session.exit_code == 137


async def test_attached_streams_both_ways_and_leaving_does_not_end_it(bench: SessionsBench) -> None:
    uuid = await bench.running("cat", stdin=True)
    for words in (b"one\n", b"two\n"):
        async with bench.port.attach_session(uuid, stdin=True) as session:
            await session.write(words)
            assert await Screen(session).until(words) == words
    found = await bench.port.inspect(uuid)
    assert found is not None
    assert found.state == "running"


async def test_keys_let_go_of_an_attached_terminal(bench: SessionsBench) -> None:
    uuid = await bench.running("cat", tty=True, stdin=True)
    async with bench.port.attach_session(uuid, stdin=True) as session:
        screen = Screen(session)
        await session.write(b"one\r")
        await screen.until(b"one")
        await session.write(b"\x10")
        await session.write(b"\x11")
        await screen.rest()
    assert session.detached
    found = await bench.port.inspect(uuid)
    assert found is not None
    assert found.state == "running"
    async with bench.port.attach_session(uuid, stdin=True) as session:
        await session.write(b"again\r")
        await Screen(session).until(b"again")


async def test_attached_input_that_ends_ends_no_container(bench: SessionsBench) -> None:
    """An engine may let go of it then; that is no error."""
    uuid = await bench.running("cat", stdin=True)
    async with bench.port.attach_session(uuid, stdin=True) as session:
        screen = Screen(session)
        await session.write(b"one\n")
        await screen.until(b"one\n")
        await session.close_stdin()
        reading = asyncio.create_task(screen.rest())
        async with bench.port.attach_session(uuid, stdin=True) as other:
            await other.write(b"two\n")
            await Screen(other).until(b"two\n")
        await bench.port.stop(uuid, 0)
        await reading


async def test_two_attached_see_the_same(bench: SessionsBench) -> None:
    if bench.port.name == "simulated":
        pytest.skip("the simulated engine echoes to each alone")
    uuid = await bench.running("cat", stdin=True)
    async with (
        bench.port.attach_session(uuid, stdin=True) as one,
        bench.port.attach_session(uuid, stdin=True) as other,
    ):
        seen = asyncio.create_task(Screen(other).until(b"for both\n"))

        async def again() -> bool:  # an engine may take a moment to attach
            await one.write(b"for both\n")
            return seen.done()

        await eventually(again, LIMIT, "the other one sees it")
        await seen
        await Screen(one).until(b"for both\n")


async def test_attached_session_ends_with_the_container(bench: SessionsBench) -> None:
    uuid = await bench.running("sh", tty=True, stdin=True)
    async with bench.port.attach_session(uuid, stdin=True) as session:
        reading = asyncio.create_task(Screen(session).rest())
        await bench.port.stop(uuid, 0)
        async with asyncio.timeout(LIMIT):
            await reading
        assert session.exit_code is None


async def test_what_does_not_run_has_no_sessions(bench: SessionsBench) -> None:
    uuid = await bench.running()
    await bench.port.stop(uuid, 0)
    with pytest.raises(EngineConflict, match="not running"):
        await bench.port.open_exec(uuid, ["sh"], tty=True, stdin=True)
    with pytest.raises(EngineConflict, match="not running"):
        async with bench.port.attach_session(uuid, stdin=True):
            raise AssertionError("it was attached")
    unknown = str(uuid4())
    with pytest.raises(EngineNotFound):
        await bench.port.open_exec(unknown, ["sh"], tty=True, stdin=True)
    with pytest.raises(EngineNotFound):
        async with bench.port.attach_session(unknown, stdin=True):
            raise AssertionError("it was attached")


async def _stands_still(value: object) -> None:
    """Until it has not changed for a second."""
    assert callable(value)
    last, calm = value(), 0
    async with asyncio.timeout(LIMIT):
        while calm < 10:
            await asyncio.sleep(0.1)
            last, calm = (last, calm + 1) if value() == last else (value(), 0)
