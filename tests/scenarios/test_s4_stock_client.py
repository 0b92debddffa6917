"""Scenario 4 as a person types it: the unmodified `openstack appcontainer exec --interactive` and `attach`, in a
pseudo-terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pexpect
import pytest

from tests.support.cloud import Cloud
from tests.support.stock_client import StockClient
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(300)
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


def exited(child: pexpect.spawn) -> int:
    child.expect(pexpect.EOF)
    child.close()
    return int(child.exitstatus or 0)


def test_exec_type_resize_interrupt_exit(team: Cloud, user: StockClient) -> None:
    team.running(name="talk")
    with typed(user, "exec", "--interactive", "talk", "sh") as child:
        ask(child, "echo $((6*7)) ü", "42 ü")
        wait_until(lambda: size_is(child, "30 100"), 30, "the terminal's size at the start")
        child.setwinsize(20, 70)
        wait_until(lambda: size_is(child, "20 70"), 30, "the size follows the window")
        child.send("echo run'ning'; sleep 4711\r")
        child.expect("running")  # no line is being edited any more: the key is a signal
        child.send("\x03")
        ask(child, "echo code $?", "code 130")
        child.send("exit\r")
        assert exited(child) == 0


def test_attach_type_resize_and_exit_of_the_container(team: Cloud, user: StockClient) -> None:
    uuid = team.running(name="talk", command=["sh"], interactive=True, tty=True)["uuid"]
    with typed(user, "attach", "talk") as child:
        ask(child, "echo $((6*7))", "42")
        child.setwinsize(21, 71)
        wait_until(lambda: size_is(child, "21 71"), 30, "the size follows the window")
    with typed(user, "attach", "talk") as child:  # the terminal was closed; the container goes on
        ask(child, "echo again $((1+1))", "again 2")
        child.send("exit\r")
        exited(child)
    team.wait(uuid, "Stopped")
