"""Runs in the stock client's virtual environment: the unmodified `openstack` program, loaded once, and run in a fork of
that for each command. Its start is four fifths of what a command takes.

``python stock_runner_child.py PROGRAM SOCKET``; ends when its standard input does. A connection is one command: a line
``{"argv", "env", "cwd", "out", "err"}`` (the last two are files), answered with a line ``{"code"}``; one that is closed
before ends the command. Imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import traceback
from typing import Any


def command(asked: dict[str, Any]) -> int:
    """The program's exit code, as the interpreter makes it of what its ``main`` does."""
    from openstackclient import shell

    sys.argv = list(asked["argv"])
    try:
        ended: Any = shell.main(sys.argv[1:])
    except SystemExit as error:
        ended = error.code
    except BaseException:
        traceback.print_exc()
        return 1
    if ended is None or isinstance(ended, int):
        return int(ended or 0)
    print(ended, file=sys.stderr)
    return 1


def become(asked: dict[str, Any]) -> None:
    """A process as a shell would have started it."""
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    for number, path in ((0, os.devnull), (1, asked["out"]), (2, asked["err"])):
        opened = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)


def handle(link: socket.socket) -> None:
    """One command, in a process of its own."""
    with link.makefile("r") as lines:
        asked = json.loads(lines.readline())
    pid = os.fork()
    if not pid:
        code = 1
        try:
            link.close()
            become(asked)
            code = command(asked) & 0xFF
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    watched = os.pidfd_open(pid)
    if link in select.select([watched, link], [], [])[0]:  # the caller has gone
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    link.sendall(json.dumps({"code": code}).encode() + b"\n")


def serve(program: str, path: str) -> None:
    sys.argv = [program]  # its name in what it says is kept when it is loaded
    import zunclient.client
    import zunclient.osc.plugin
    import zunclient.osc.v1.capsules
    import zunclient.osc.v1.containers  # noqa: F401 - loaded for all
    from openstackclient import shell  # noqa: F401

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(64)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
            link, _ = listening.accept()
            if not os.fork():
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listening.close()
                try:
                    handle(link)
                except OSError:
                    traceback.print_exc()
                finally:
                    os._exit(0)
            link.close()


if __name__ == "__main__":
    serve(*sys.argv[1:])
