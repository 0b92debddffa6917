"""The page of sessions with nothing in between left out: browser, proxy, relay and Docker."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.support.browser import Console, chromium, console
from tests.support.cloud import Cloud
from tests.support.product import Product
from tests.support.wait import eventually

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def tab(browser: Browser) -> AsyncIterator[Console]:
    async with console(browser) as found:
        yield found


@pytest.fixture
def cloud(shared_product: Product, busybox: str) -> Cloud:
    return Cloud(shared_product, busybox)


def running(cloud: Cloud, **body: Any) -> str:
    return str(cloud.running(image_pull_policy="ifnotpresent", **body)["uuid"])


def exec_url(cloud: Cloud, uuid: str, command: str = "sh") -> str:
    asked = {"command": command, "interactive": "True", "run": "False"}
    return str(cloud.post(f"/containers/{uuid}/execute", 200, params=asked).json()["proxy_url"])


async def test_exec_types_resizes_ends_and_opens_again_with_a_fresh_token(tab: Console, cloud: Cloud) -> None:
    uuid = running(cloud, hostname="boxed")
    first = exec_url(cloud, uuid)
    await tab.open(first)
    assert await tab.state("connected") == "Connected."
    await tab.type("hostname; echo $((6 * 7))\n")
    await tab.shows("boxed")
    await tab.shows("42")
    letter_widths = []
    for width, height in ((900, 500), (500, 700)):
        await tab.page.set_viewport_size({"width": width, "height": height})
        letter_widths.append(
            await eventually(lambda: _letter(tab), 30, "the container's terminal is of the window's size")
        )
    assert abs(letter_widths[0] - letter_widths[1]) < 0.2
    await tab.type("exit 3\n")
    assert await tab.state("ended") == "Ended with exit code 3."
    await tab.open(first)
    assert await tab.state("refused") == "Refused: The token was used already; ask for a new session."
    await tab.page.reload()
    await tab.state("idle")
    await tab.paste_url(exec_url(cloud, uuid))
    await tab.state("connected")
    await tab.type("echo fresh $((1 + 1))\n")
    await tab.shows("fresh 2")


async def _letter(tab: Console) -> float | None:
    """The width of a letter by what the container believes; None until it has as many rows as are painted."""
    await tab.type("clear; stty size\n")
    line = await eventually(lambda: _size_line(tab), 10, "stty answers")
    rows, columns = (int(number) for number in line.split())
    fitting, width = await tab.page.evaluate("""() => {
        const row = document.querySelector(".xterm-rows > div");
        const fitting = Math.floor(document.querySelector("#terminal").clientHeight / row.clientHeight);
        return [fitting, parseFloat(getComputedStyle(row).width)];
    }""")
    painted = await tab.page.locator(".xterm-rows > div").count()
    return width / columns if rows == painted == fitting else None


async def _size_line(tab: Console) -> str | None:
    return next((line for line in await tab.screen() if re.fullmatch(r"\d+ \d+", line)), None)


async def test_attach_shares_the_containers_terminal_and_leaves_it_running(browser: Browser, cloud: Cloud) -> None:
    uuid = running(cloud, command=["sh"], interactive=True, tty=True)
    async with console(browser) as one, console(browser) as other:
        for tab in (one, other):
            await tab.open(str(cloud.get(f"/containers/{uuid}/attach")))
            await tab.state("connected")
        await other.type("echo here $((1 + 1))\n")
        await other.shows("here 2")  # Docker answers before it attaches
        await one.type("echo from $((40 + 2))\n")
        await one.shows("from 42")
        await other.shows("from 42")
    assert cloud.get(f"/containers/{uuid}")["status"] == "Running"


async def test_a_process_without_terminal_gets_lines(tab: Console, cloud: Cloud) -> None:
    uuid = running(cloud, command=["sh", "-c", "while read line; do echo got $line; echo and on; done; echo over"],
                   interactive=True)  # fmt: skip
    await tab.open(str(cloud.get(f"/containers/{uuid}/attach")))
    await tab.state("connected")
    await tab.page.locator("#end-input").wait_for()
    await tab.type("one\n")
    await tab.shows("and on")
    lines = await tab.screen()
    assert lines[:3] == ["one", "got one", "and on"]  # shown as typed, and every line begins at the left


async def test_a_deleted_container_ends_the_session_with_a_reason(tab: Console, cloud: Cloud) -> None:
    uuid = running(cloud)
    await tab.open(exec_url(cloud, uuid))
    await tab.state("connected")
    await tab.type("echo up\n")
    await tab.shows("up")
    cloud.delete(uuid, force="true")
    await tab.page.locator("#state:is([data-state=ended], [data-state=lost])").wait_for()
    assert await tab.page.is_visible("#open")
