"""Holds a starting container's first process at the moment it becomes the user's program, until it is let go.

The kernel's process tracing does it, so nothing of the container changes, and a tracer that dies holds nobody: the
kernel lets go of its processes. All calls of one hold have to come from one thread. Needs CAP_SYS_PTRACE.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal

LOG = logging.getLogger(__name__)

_CONT = 7
_DETACH = 17
_SEIZE = 0x4206
_INTERRUPT = 0x4207
_AT_EXEC = 1 << 4  # PTRACE_O_TRACEEXEC
_EVENT_EXEC = 4
_ALL_CHILDREN = 0x40000000  # __WALL
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


class ExecHold:
    """``step`` has to be called every few milliseconds until ``over``."""

    def __init__(self, pid: int) -> None:
        """Raises OSError when the process is gone or may not be traced."""
        self.pid = pid
        self.held = False
        """It would run the user's program now."""
        self.over = False
        self._let_go = False
        self._interrupted = False
        _ptrace(_SEIZE, pid, _AT_EXEC)

    def let_go(self) -> None:
        """From the next step on nothing is held. May be called in any thread."""
        self._let_go = True

    def step(self) -> None:
        """Answer what the process does; never waits."""
        try:
            self._step()
        except (ProcessLookupError, ChildProcessError):  # ended
            self.over = True

    def _step(self) -> None:
        while not self.over:
            pid, status = os.waitpid(self.pid, os.WNOHANG | _ALL_CHILDREN)
            if pid:
                self._stopped(status)
                continue
            if not self._let_go:
                return
            if self.held:
                _ptrace(_DETACH, self.pid)
                self.over = True
            elif not self._interrupted:
                self._interrupted = True
                _ptrace(_INTERRUPT, self.pid)
            return

    def _stopped(self, status: int) -> None:
        if not os.WIFSTOPPED(status):
            self.over = True
            return
        event, number = status >> 16, os.WSTOPSIG(status)
        delivered = 0 if event or number == signal.SIGTRAP else number
        if self._let_go:
            _ptrace(_DETACH, self.pid, delivered)
            self.over = True
        elif event == _EVENT_EXEC:
            self.held = True
        else:
            _ptrace(_CONT, self.pid, delivered)


def _ptrace(request: int, pid: int, data: int = 0) -> None:
    if _libc.ptrace(request, pid, None, data) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"ptrace: {os.strerror(number)}")
