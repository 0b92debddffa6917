"""Interactive sessions of a simulated engine: ``cat``, a small shell, and what ``SmallShell`` knows. Used by
``simulated.py`` and ``simulated_pods.py`` only, through ``SessionCalls``."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from uuid import uuid4

from zun.domain.errors import EngineNotFound, EngineUnreachable
from zun.runtime.detach import DetachKeys
from zun.runtime.sessions import PIECE, Session
from zun.runtime.simulated_commands import Handler, exit_code, words_of
from zun.runtime.simulated_faults import Faults, faulty

_KILLED = 137


class _Pipe:
    """Bytes of which at most 64 KiB are on their way."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._ended = False
        self._changed = asyncio.Condition()

    async def put(self, data: bytes) -> None:
        """Waits for room. Raises BrokenPipeError when nobody reads any more."""
        for at in range(0, len(data), PIECE):
            async with self._changed:
                await self._changed.wait_for(lambda: len(self._data) < PIECE or self._ended)
                if self._ended:
                    raise BrokenPipeError
                self._data += data[at : at + PIECE]
                self._changed.notify_all()

    async def get(self) -> bytes:
        """Empty at the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._data or self._ended)
            found = bytes(self._data[:PIECE])
            del self._data[: len(found)]
            self._changed.notify_all()
            return found

    async def end(self) -> None:
        async with self._changed:
            self._ended = True
            self._changed.notify_all()


class SimulatedSession:
    """``zun.runtime.sessions.Session`` without an engine."""

    failure = ""

    def __init__(self, *, tty: bool) -> None:
        self.tty = tty
        self.size: tuple[int, int] | None = None
        """Height and width of the terminal."""
        self.exit_code: int | None = None
        self.stdin, self.stdout = _Pipe(), _Pipe()
        self.program: asyncio.Task[None] | None = None
        """None: attached."""
        self.detached = False
        self._keys = DetachKeys()
        self._broken = False

    async def write(self, data: bytes) -> None:
        if self.program is None and self.tty:
            data, typed = self._keys.pass_on(data)
            self.detached = self.detached or typed
        try:
            await self.stdin.put(data)
        except BrokenPipeError as error:
            raise EngineUnreachable("the simulated engine has ended the session") from error
        if self.detached:
            await self.over()

    async def close_stdin(self) -> None:
        await self.stdin.end()

    async def resize(self, *, height: int, width: int) -> None:
        if self.tty:
            self.size = (height, width)

    async def end_command(self) -> None:
        if self.program is not None and not self.program.done():
            self.exit_code = _KILLED
            self.program.cancel()
            await self.over()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.stdout.get():
            yield data
        if self._broken:
            raise EngineUnreachable("the simulated engine broke off the session")

    async def over(self, *, broken: bool = False) -> None:
        """No more comes of either stream."""
        self._broken = self._broken or broken
        await self.stdin.end()
        await self.stdout.end()


class SimulatedSessions:
    """All of one engine. ``break_off`` is the engine's death, ``wrote`` what a container writes to its streams."""

    def __init__(self, on_execute: Callable[[], Handler]) -> None:
        self._on_execute = on_execute
        self._asked: dict[str, str] = {}
        self._open: dict[SimulatedSession, str] = {}
        self._ending: set[asyncio.Future[None]] = set()

    def ask(self, uuid: str) -> str:
        """The id of a command that is to run."""
        exec_id = uuid4().hex * 2
        self._asked[exec_id] = uuid
        return exec_id

    @asynccontextmanager
    async def run(
        self, uuid: str, exec_id: str, command: Sequence[str], *, tty: bool
    ) -> AsyncIterator[SimulatedSession]:
        """A command; it goes on after the session."""
        if self._asked.pop(exec_id, None) != uuid:
            raise EngineNotFound(f"No such exec instance: {exec_id}")
        async with self._session(uuid, tty=tty) as session:
            session.program = asyncio.create_task(self._run(session, uuid, command), name="simulated-exec")
            try:
                yield session
            finally:
                session.program.cancel()  # nobody could ever see it again
                await asyncio.gather(session.program, return_exceptions=True)

    @asynccontextmanager
    async def attach(self, uuid: str, *, tty: bool) -> AsyncIterator[SimulatedSession]:
        """A container's streams: what is written comes back, as from a program that echoes."""
        async with self._session(uuid, tty=tty) as session:
            echo = asyncio.create_task(_echo(session), name="simulated-attach")
            try:
                yield session
            finally:
                echo.cancel()
                await asyncio.gather(echo, return_exceptions=True)

    async def wrote(self, uuid: str, data: bytes) -> None:
        """To all that are attached."""
        for session in self._of(uuid):
            if session.program is None:
                await session.stdout.put(data)

    def ended(self, uuid: str) -> None:
        """The container, and all in it."""
        for session in self._of(uuid):
            self._later(session.end_command())
            self._later(session.over())

    def resize(self, uuid: str, height: int, width: int) -> None:
        """The container's own terminal."""
        for session in self._of(uuid):
            if session.program is None and session.tty:
                session.size = (height, width)

    def forget(self, exec_id: str) -> None:
        """It is not to run any more; again, or of one that is not known, is success."""
        self._asked.pop(exec_id, None)

    def break_off(self) -> None:
        """The engine is gone, in the middle."""
        for session in list(self._open):
            self._later(session.over(broken=True))

    def _of(self, uuid: str) -> Sequence[SimulatedSession]:
        return [session for session, owner in self._open.items() if owner == uuid]

    def _later(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    @asynccontextmanager
    async def _session(self, uuid: str, *, tty: bool) -> AsyncIterator[SimulatedSession]:
        session = SimulatedSession(tty=tty)
        self._open[session] = uuid
        try:
            yield session
        finally:
            del self._open[session]

    async def _run(self, session: SimulatedSession, uuid: str, command: Sequence[str]) -> None:
        try:
            with contextlib.suppress(BrokenPipeError):
                session.exit_code = await self._program(session, uuid, command)
        finally:
            await session.over()

    async def _program(self, session: SimulatedSession, uuid: str, command: Sequence[str]) -> int:
        if command[0] == "cat":
            await _echo(session)
            return 0
        if list(command) in (["sh"], ["/bin/sh"]):
            return await _Shell(session, uuid, self._on_execute()).run()
        if list(command[:2]) == ["head", "-c"]:
            left = int(command[2]) if len(command) > 2 and command[2].isdecimal() else 0
            while left > 0:
                await session.stdout.put(bytes(min(left, PIECE)))
                left -= PIECE
            return 0
        found = await self._on_execute()(uuid, command)
        await session.stdout.put(found.output.encode())
        return found.exit_code


class SessionCalls(ABC):
    """What the ports say of sessions, the same for containers and for members."""

    sessions: SimulatedSessions
    faults: Faults

    @abstractmethod
    def _may_exec(self, uuid: str) -> None:
        """Raises EngineNotFound, and EngineConflict for one that takes no commands now."""

    @abstractmethod
    def _own_terminal(self, uuid: str) -> bool:
        """Has it one? Raises EngineNotFound, and EngineConflict for one that does not run."""

    @faulty
    async def open_exec(self, uuid: str, command: Sequence[str], *, tty: bool, stdin: bool) -> str:
        self._may_exec(uuid)
        return self.sessions.ask(uuid)

    @asynccontextmanager
    async def exec_session(
        self, uuid: str, exec_id: str, command: Sequence[str], *, tty: bool, stdin: bool
    ) -> AsyncIterator[Session]:
        await self.faults.enter("exec_session")
        self._own_terminal(uuid)
        async with self.sessions.run(uuid, exec_id, command, tty=tty) as session:
            yield session

    @asynccontextmanager
    async def attach_session(self, uuid: str, *, stdin: bool) -> AsyncIterator[Session]:
        await self.faults.enter("attach_session")
        async with self.sessions.attach(uuid, tty=self._own_terminal(uuid)) as session:
            yield session

    @faulty
    async def end_exec(self, uuid: str, exec_id: str, command: Sequence[str], began: datetime) -> None:
        """They end with the process that simulates them: one of an earlier process is always over."""
        self.sessions.forget(exec_id)


async def _echo(session: SimulatedSession) -> None:
    while data := await session.stdin.get():
        await session.stdout.put(data)


class _Shell:
    """Lines of commands; with a terminal they are echoed, and Control-C and Control-D are understood."""

    def __init__(self, session: SimulatedSession, uuid: str, run: Handler) -> None:
        self._session = session
        self._uuid = uuid
        self._run = run

    async def run(self) -> int:
        """To its end; its exit code."""
        line = bytearray()
        await self._prompt()
        while data := await self._session.stdin.get():
            for byte in data:
                if byte in b"\r\n":
                    await self._show(b"\r\n")
                    code = await self._line(line.decode(errors="replace"))
                    line.clear()
                    if code is not None:
                        return code
                elif self._session.tty and byte == 3:
                    line.clear()
                    await self._show(b"^C\r\n")
                    await self._prompt()
                elif self._session.tty and byte == 4 and not line:
                    return 0
                else:
                    line.append(byte)
                    await self._show(bytes([byte]))
        return 0

    async def _line(self, text: str) -> int | None:
        words = words_of(["sh", "-c", text])
        if words[:1] == ["exit"]:
            return exit_code(words[1:], 0)
        if words == ["stty", "size"]:
            height, width = self._session.size or (24, 80)
            await self._out(f"{height} {width}\n")
        elif words:
            await self._out((await self._run(self._uuid, words)).output)
        await self._prompt()
        return None

    async def _prompt(self) -> None:
        await self._show(b"# ")

    async def _show(self, data: bytes) -> None:
        if self._session.tty:
            await self._session.stdout.put(data)

    async def _out(self, text: str) -> None:
        await self._session.stdout.put((text.replace("\n", "\r\n") if self._session.tty else text).encode())
