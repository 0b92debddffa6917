"""Logs that are followed through the API, on the real engine: every line once, whatever happens on the way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.log_follower import (
    COUNTS_ON,
    ClientFollower,
    all_counted,
    by_number,
    counted,
    counts,
    made,
    told_to_stop,
)
from tests.support.processes import agent_up, healthy, running
from tests.support.product import Product
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def product(shared_product: Product) -> Iterator[Product]:
    yield shared_product
    shared_product.clear()


def test_followed_while_it_writes_and_gone_on_in_the_middle(product: Product, busybox: str) -> None:
    uuid = made(product, busybox, counts(400))
    follower = ClientFollower(product.http, uuid)
    while len(follower.lines) < 300:
        goal = len(follower.lines) + 60
        follower.read(lambda: len(follower.lines) >= goal)  # noqa: B023 - called within the loop's turn
    follower.read_to_the_end()
    assert by_number(follower.lines) == counted(400)
    for stream in ("out", "err"):
        mine = [line for line in follower.lines if line.startswith(stream)]
        assert mine == by_number(mine)
    shown = product.http().get(f"/v1/containers/{uuid}").json()
    assert shown["status"] == "Stopped"
    end = {"reason": "stopped", "status": "Stopped", "status_reason": shown["status_reason"], "exit_code": 3}
    assert follower.events[-1].data == end
    place = follower.events[len(follower.events) // 2].ident
    with product.http().stream("GET", f"/v1/containers/{uuid}/logs/stream", headers={"Last-Event-ID": place}) as answer:
        assert sum(line == "event: log" for line in answer.iter_lines()) == 400 - len(follower.events) // 2 - 1


def test_a_log_that_is_turned_over_and_a_client_that_does_not_read(product: Product, busybox: str) -> None:
    """25 MB, at 10 MB a file: two are turned over while the client takes nothing, or is slow."""
    script = (
        "p=$(head -c 10000 /dev/zero | tr '\\0' x); i=0;"
        " while [ $i -lt 2500 ]; do echo $i $p; i=$((i+1)); done; sleep 2; echo 2500 end"
    )
    uuid = made(product, busybox, script)
    quick, slow = ClientFollower(product.http, uuid), ClientFollower(product.http, uuid)

    def stands_still_once() -> bool:
        if len(slow.lines) == 1:
            product.wait_status(f"/v1/containers/{uuid}", "Stopped", timeout=240)
        return False

    standing = threading.Thread(target=slow.read, args=(stands_still_once,))
    standing.start()
    quick.read_to_the_end()
    standing.join(240)
    assert not standing.is_alive()
    slow.read_to_the_end()  # where it was left meanwhile
    for one in (quick, slow):
        assert [line.split()[0] for line in one.lines] == [str(number) for number in range(2501)]
        assert not any(event.name == "lost" for event in one.events)


def test_a_terminal_and_a_long_line(product: Product, busybox: str) -> None:
    script = "echo one; head -c 40000 /dev/zero | tr '\\0' a; echo; printf prompt; exit 0"
    uuid = made(product, busybox, script, tty=True, interactive=True)
    follower = ClientFollower(product.http, uuid)
    follower.read_to_the_end()
    whole = "".join(
        one.data["line"] + ("" if one.data.get("partial") else "\n") for one in follower.events if one.name == "log"
    )
    assert whole == "one\r\n" + "a" * 40000 + "\r\nprompt"


def test_the_product_is_killed_and_started_again(make_product: Callable[[], Product], busybox: str) -> None:
    product = make_product().start()
    uuid = made(product, busybox, COUNTS_ON)
    follower = ClientFollower(product.http, uuid)
    for goal in (100, 400):
        reading = threading.Thread(target=follower.read)
        reading.start()
        wait_until(lambda: len(follower.lines) >= goal, 120, f"{goal} lines")  # noqa: B023
        product.kill()
        reading.join(60)
        assert not reading.is_alive()
        product.start()
    told_to_stop(product, uuid)
    follower.read_to_the_end()
    assert all_counted(product, uuid, follower.lines)


@contextmanager
def _apart(product: Product, folder: Path) -> Iterator[httpx.Client]:
    """API and agents as processes of their own."""
    product.start()
    product.terminate()
    product.conf(DEFAULT={"transport_url": f"unix://{folder}/bus"})
    with running("zun-api", product):
        wait_until(lambda: healthy(product), 120, "zun-api answers")
        yield product.http()


def test_the_agent_restarts_and_the_stream_goes_on(
    make_product: Callable[[], Product], busybox: str, tmp_path: Path
) -> None:
    product = make_product()
    with _apart(product, tmp_path) as http:
        with running("zun-compute", product):
            wait_until(lambda: agent_up(http), 120, "zun-compute is up")
            uuid = made(product, busybox, COUNTS_ON)
            follower = ClientFollower(product.http, uuid)
            reading = threading.Thread(target=follower.read)
            reading.start()
            wait_until(lambda: len(follower.lines) >= 100, 60, "lines come")
        wait_until(lambda: any(one.name == "waiting" for one in follower.events), 60, "it is told that nobody answers")
        before = len(follower.lines)
        with running("zun-compute", product):
            wait_until(lambda: len(follower.lines) > before, 150, "it goes on")
            told_to_stop(product, uuid)
            reading.join(240)
            assert not reading.is_alive(), "the stream has ended with the container"
            assert all_counted(product, uuid, follower.lines)
            assert follower.events[-1].data["reason"] == "stopped"
            product.clear()
