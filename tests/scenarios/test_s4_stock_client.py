"""Scenario 4 as a person types it: the unmodified `openstack appcontainer exec --interactive` and `attach`, in a
pseudo-terminal."""

from __future__ import annotations

import pytest

from tests.support.cloud import Cloud
from tests.support.sessions import long_sleep, processes
from tests.support.stock_client import StockClient
from tests.support.stock_terminal import ask, exited, interrupt, size_is, typed
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(300)


def test_exec_type_resize_interrupt_exit(team: Cloud, user: StockClient) -> None:
    team.running(name="talk")
    with typed(user, "exec", "--interactive", "talk", "sh") as child:
        ask(child, "echo $((6*7)) ü", "42 ü")
        wait_until(lambda: size_is(child, "30 100"), 30, "the terminal's size at the start")
        child.setwinsize(20, 70)
        wait_until(lambda: size_is(child, "20 70"), 30, "the size follows the window")
        interrupt(child)
        child.send("exit\r")
        assert exited(child) == 0


def test_terminal_that_is_closed_ends_the_command_and_not_the_container(team: Cloud, user: StockClient) -> None:
    uuid, left = team.running(name="talk")["uuid"], long_sleep()
    with typed(user, "exec", "--interactive", "talk", "sh") as child:
        # The client's own key to leave: it compares bytes with text, and passes it on.
        child.send("\r~.\x15")
        ask(child, "echo still $((6*7))", "still 42")
        child.send(" ".join(left) + "\r")
        wait_until(lambda: processes(left), 60, "the command runs")
    wait_until(lambda: not processes(left), 60, "what ran in the terminal has ended")
    assert team.show(uuid)["status"] == "Running"  # type: ignore[index]
    with typed(user, "exec", "--interactive", "talk", "sh") as child:
        ask(child, "echo again $((1+1))", "again 2")
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
        interrupt(child)
        child.send("\x10\x11")  # Control-P, Control-Q
        assert exited(child) == 0
    assert team.show(uuid)["status"] == "Running"  # type: ignore[index]
    with typed(user, "attach", "talk") as child:
        ask(child, "echo third $((1+2))", "third 3")
        child.send("exit\r")
        exited(child)
    team.wait(uuid, "Stopped")
