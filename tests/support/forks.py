"""Processes of the product for tests: forks of one that has loaded it (decision 0094), or real starts.

``start`` and ``run`` are what ``subprocess.Popen`` and ``subprocess.run`` are for other programs. A real start is what
a command gets that is not ours, one with an interpreter set otherwise, and every one where ZUN_TEST_EXEC is set or
nobody has called ``allow``: measurements and fuzzing do not.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

_ROOT = Path(__file__).parents[2]
_BIN = Path(sys.executable).parent
_TRAPS = ("tests.faults.killable", "tests.faults.pausable")
_START = 120  # seconds; an overloaded machine takes more than thirty
_ROOM = 1024  # bytes that the words of a command may take

_LOCK = threading.Lock()
_allowed = False
_loaded: _Loaded | None = None


class Forked:
    """A process of the product, with what its users want of ``subprocess.Popen``."""

    def __init__(self, loaded: _Loaded, command: Sequence[str], pid: int) -> None:
        self.args, self.pid = command, pid
        self.returncode: int | None = None
        self._loaded = loaded
        self._pidfd = os.pidfd_open(pid)  # its number is its own until it is reaped, which only we do
        self._reaping = threading.Lock()

    def poll(self) -> int | None:
        return self._reap(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._reap(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(list(self.args), timeout)
        return code

    def _reap(self, timeout: float | None) -> int | None:
        """The exit code, once there is one; None after so many seconds."""
        with self._reaping:
            if self.returncode is None:
                poll = select.poll()
                poll.register(self._pidfd, select.POLLIN)
                if poll.poll(None if timeout is None else max(timeout, 0) * 1000):
                    self.returncode = self._loaded.ask({"reap": self.pid})
                    os.close(self._pidfd)
            return self.returncode

    def send_signal(self, number: int) -> None:
        """Nothing to one that has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


Process = subprocess.Popen[bytes] | Forked


class _Loaded:
    """The process that has the modules; ends with this one, also with its SIGKILL."""

    def __init__(self) -> None:
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("ZUN_", "OS_"))}
        self.pid = os.getpid()
        self._turn = threading.Lock()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this
        self._link, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.fork_child", str(theirs.fileno()), "." * _ROOM],
                stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, env=self.env, cwd=_ROOT,
                pass_fds=[theirs.fileno()],
            )  # fmt: skip
        atexit.register(self.close)
        self._link.settimeout(_START)
        self._answer()

    def start(self, command: Sequence[str], env: Mapping[str, str], session: bool, files: list[int]) -> Forked:
        asked = {"command": list(command), "env": dict(env), "session": session, "cwd": str(Path.cwd())}
        return Forked(self, command, self.ask(asked | {"name": _name(command)}, files))

    def ask(self, asked: dict[str, Any], files: Sequence[int] = ()) -> int:
        data = json.dumps(asked).encode()
        with self._turn:
            socket.send_fds(self._link, [b"%-8d" % len(data)], files)
            self._link.sendall(data)
            return self._answer()

    def _answer(self) -> int:
        answer = self._link.recv(8, socket.MSG_WAITALL)
        if not answer:
            self._log.seek(0)
            raise AssertionError(f"the process that has loaded the product ended: {self._log.read().decode()}")
        return int(answer)

    def close(self) -> None:
        self._link.close()
        if self.pid == os.getpid():
            self._process.wait(60)
        self._log.close()


def allow() -> None:
    """The tests of this process may fork."""
    global _allowed
    _allowed = not os.environ.get("ZUN_TEST_EXEC")


def start(
    command: Sequence[str],
    *,
    stdout: IO[bytes] | int,
    stderr: IO[bytes] | int,
    env: Mapping[str, str] | None = None,
    start_new_session: bool = False,
) -> Process:
    """A process without input."""
    env = os.environ if env is None else env
    loaded = _loaded_for(command, env)
    if loaded is None:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=env,
            start_new_session=start_new_session,
        )  # fmt: skip
    words = [*([] if command[0] == sys.executable else [sys.executable]), *command]
    numbers = [one if isinstance(one, int) else one.fileno() for one in (stdout, stderr)]
    with Path(os.devnull).open("rb") as nothing:
        return loaded.start(words, env, start_new_session, [nothing.fileno(), *numbers])


def run(
    command: Sequence[str], *, timeout: float, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command to its end, and what it said. Raises TimeoutExpired; it is ended then."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = start(command, stdout=out, stderr=err, env=env)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode())
        return subprocess.CompletedProcess(list(command), code, *said)


@contextlib.contextmanager
def real_starts() -> Iterator[None]:
    """For tests of what a start loads, takes or says."""
    global _allowed
    before, _allowed = _allowed, False
    try:
        yield
    finally:
        _allowed = before


def _loaded_for(command: Sequence[str], env: Mapping[str, str]) -> _Loaded | None:
    """None where a real start is wanted."""
    global _loaded
    if not _allowed or not _is_ours(command) or sum(len(os.fsencode(word)) + 1 for word in command) > _ROOM:
        return None
    with _LOCK:
        if _loaded is None or _loaded.pid != os.getpid():
            _loaded = _Loaded()
    alike = all(env.get(name) == _loaded.env.get(name) for name in {*env, *_loaded.env} if _sets_interpreter(name))
    return _loaded if alike else None


def _is_ours(command: Sequence[str]) -> bool:
    if command[0] == sys.executable:
        return len(command) > 2 and command[1] == "-m" and command[2] in _TRAPS
    path = Path(command[0])
    return path.parent == _BIN and path.name.partition("-")[0] == "zun"


def _sets_interpreter(name: str) -> bool:
    """Whether it is read when an interpreter begins, or by a module when it is loaded."""
    return (name.startswith(("PYTHON", "LC_", "LD_", "TERMINAL_", "GRPC_")) and name != "PYTHONPATH") or name in (
        "LANG",
        "FORCE_COLOR",
        "NO_COLOR",
        "PY_COLORS",
    )


def _name(command: Sequence[str]) -> str:
    """The kernel's: the file that was executed."""
    return Path(command[0] if command[1] == "-m" else command[1]).name
