"""The product's modules, loaded once, and a fork of that for each process of the product that a test starts.

``python -m tests.support.fork_child SOCKET PADDING``: the number of its end of a socket; it ends when the other end, of
``forks.py``, is closed. It starts no thread and opens nothing: a fork is what an interpreter is after these imports.
The program then runs in the fork at this file's last line, so that its exceptions, exit handlers and threads meet the
interpreter's own end.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

_LEFT_OUT = frozenset({"zun.store.migrations", "zun.runtime.cri"})
"""Alembic's scripts are no modules; gRPC's core is not to be forked, and the package writes to the environment."""
_LATE = (
    "asyncmy",
    "cryptography.hazmat.backends.openssl.backend",
    "dateutil.tz",
    "oslo_log.formatters",
    "oslo_log.handlers",
    "oslo_log.log",
    "oslo_log.versionutils",
    "pydantic.type_adapter",
    "sqlalchemy.dialects.mysql.asyncmy",
    "uvicorn.lifespan.off",
    "uvloop",
)
"""What a start loads of others' in a function."""
_PR_SET_NAME, _PR_SET_MM, _ARG_END = 15, 35, 9


def load() -> None:
    """All that a process of the product may need until it is ready. What forks could not share is an error."""
    before, files = dict(os.environ), os.listdir("/proc/self/fd")
    for name in _names("zun"):
        importlib.import_module(name)
    for name in _LATE:
        importlib.import_module(name)
    assert "grpc" not in sys.modules
    assert dict(os.environ) == before, "an import writes to the environment"
    assert os.listdir("/proc/self/task") == [str(os.getpid())], "an import starts a thread"
    assert os.listdir("/proc/self/fd") == files, "an import opens something"


def _names(package: str) -> list[str]:
    """The package and all modules below it."""
    found = [package]
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        if module.name not in _LEFT_OUT:
            found += _names(module.name) if module.ispkg else [module.name]
    return found


def serve(link: socket.socket) -> dict[str, Any]:
    """Forks and reaps as it is asked. Returns in a fork alone: with what was asked."""
    while True:
        head, descriptors, _, _ = socket.recv_fds(link, 8, 3)
        if not head:
            sys.exit()
        asked: dict[str, Any] = json.loads(link.recv(int(head), socket.MSG_WAITALL))
        if "reap" in asked:
            answer = os.waitstatus_to_exitcode(os.waitpid(asked["reap"], 0)[1])
        else:
            readable, writable = os.pipe()
            answer = os.fork()
            if not answer:
                become(asked, descriptors, writable)
                return asked
            os.close(writable)
            os.read(readable, 1)  # or its end, when the fork failed
            for descriptor in (readable, *descriptors):
                os.close(descriptor)
        link.sendall(b"%-8d" % answer)


def become(asked: dict[str, Any], descriptors: list[int], told: int) -> None:
    """A process as ``subprocess.Popen`` starts it; then a byte to ``told``, so that nobody sees it before."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    if asked["session"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    _entitle(asked["command"], asked["name"])
    os.write(told, b".")
    os.closerange(3, max(map(int, os.listdir("/proc/self/fd"))) + 1)
    gc.enable()


def _entitle(command: list[str], name: str) -> None:
    """What /proc tells of the process, as after an exec: written over the words that this process was started with."""
    begin, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    text = b"".join(os.fsencode(word) + b"\0" for word in command)
    assert len(text) <= end - begin, command
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, text, len(text))
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_NAME, os.fsencode(name), 0, 0, 0)
    # Who may not (CAP_SYS_RESOURCE) leaves empty words behind the last.
    prctl(_PR_SET_MM, ctypes.c_ulong(_ARG_END), ctypes.c_ulong(begin + len(text)), ctypes.c_ulong(0), ctypes.c_ulong(0))


def run(asked: dict[str, Any]) -> None:
    """The program, as ``python FILE …`` or ``python -m MODULE …`` runs it."""
    words = asked["command"][1:]
    sys.orig_argv = list(asked["command"])
    more = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if words[0] == "-m":
        sys.path[:0] = [str(Path.cwd()), *more]
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[:0] = [str(Path(words[0]).parent), *more]
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    del sys.path[0]  # that of this start; a fork has its own
    gc.disable()
    load()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who ends the tests closes the socket
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as joined:
        joined.sendall(b"%-8d" % os.getpid())
        wanted = serve(joined)
        joined.detach()  # closed with all others
    run(wanted)
