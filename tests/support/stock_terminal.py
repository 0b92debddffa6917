"""The unmodified `openstack appcontainer exec --interactive` and `attach` in a pseudo-terminal, and what a person types
there. The client's own `~.` does not leave: it compares bytes with text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pexpect

from tests.support.sessions import processes
from tests.support.stock_client import StockClient
from tests.support.wait import wait_until

_SECONDS = 60


@contextmanager
def typed(user: StockClient, *words: str) -> Iterator[pexpect.spawn]:
    """`openstack appcontainer …` in a terminal of 30 lines and 100 columns, once it says that it is connected."""
    child = pexpect.spawn(
        str(user.program), ["appcontainer", *words], env={**user.env, "TERM": "dumb"}, dimensions=(30, 100),
        timeout=_SECONDS, encoding="utf-8",
    )  # fmt: skip
    child.delaybeforesend = None
    try:
        child.expect("connected to .*press Enter to continue")
        # What is typed before the client has made the terminal raw is lost to it: hence its advice.
        while child.expect(["# ", pexpect.TIMEOUT], timeout=1) == 1:
            child.send("\r")
        yield child
    finally:
        child.close(force=True)


def ask(child: pexpect.spawn, line: str, answer: str) -> None:
    """Type a line; the answer stands on a line of its own, the echo does not."""
    child.send(f"{line}\r")
    child.expect(rf"\r\n{answer}\r")


def size_is(child: pexpect.spawn, size: str) -> bool:
    child.send("stty size\r")
    child.expect(r"\r\n(\d+ \d+)\r")
    return bool(child.match and child.match[1] == size)


def interrupt(child: pexpect.spawn) -> None:
    """Control-C ends the program that runs, and not the shell."""
    command = ["sleep", str(100_000 + os.getpid())]
    child.send(" ".join(command) + "\r")
    wait_until(lambda: processes(command), _SECONDS, "the key will be for the program")
    child.send("\x03")
    ask(child, "echo code $?", "code 130")


def exited(child: pexpect.spawn) -> int:
    """The client's exit code, once it ends by itself."""
    child.expect(pexpect.EOF)
    child.close()
    return int(child.exitstatus or 0)
