"""Scenario 4 as a person types it, on containers of capsules: the unmodified client in a pseudo-terminal."""

from __future__ import annotations

import pytest

from tests.support.capsule_cloud import CapsuleCloud
from tests.support.stock_client import StockClient
from tests.support.stock_terminal import ask, exited, interrupt, size_is, typed
from tests.support.wait import wait_until

pytestmark = [pytest.mark.xdist_group("capsules"), pytest.mark.timeout(600)]


def test_exec_and_attach_of_a_member(capsules: CapsuleCloud) -> None:
    user = StockClient(capsules.product.url, capsules.product.admin_token)
    uuid = capsules.create({"command": ["sh"], "stdin": True, "tty": True})
    member = capsules.wait(uuid, "Running")["containers"][0]["uuid"]
    with typed(user, "exec", "--interactive", member, "sh") as child:
        ask(child, "echo $((6*7)) ü", "42 ü")
        wait_until(lambda: size_is(child, "30 100"), 30, "the terminal's size at the start")
        child.setwinsize(20, 70)
        wait_until(lambda: size_is(child, "20 70"), 30, "the size follows the window")
        interrupt(child)
        child.send("exit\r")
        assert exited(child) == 0
    with typed(user, "attach", member) as child:
        ask(child, "kept=$((6*7)); echo $kept", "42")
        child.setwinsize(21, 71)
        wait_until(lambda: size_is(child, "21 71"), 30, "the size follows the window")
        interrupt(child)
        child.send("\x10\x11")  # Control-P, Control-Q
        assert exited(child) == 0
    with typed(user, "attach", member) as child:  # the same shell: it went on
        ask(child, "echo again $kept", "again 42")
        child.send("exit\r")
        exited(child)
