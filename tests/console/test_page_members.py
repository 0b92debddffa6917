"""The page of sessions on containers of capsules, nothing left out: browser, proxy, relay, containerd or Docker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.support.browser import Console, chromium, console
from tests.support.capsule_cloud import CapsuleCloud, DockerCapsuleCloud
from tests.support.engine import Engine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("capsules"),
    pytest.mark.timeout(600),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def tab(browser: Browser) -> AsyncIterator[Console]:
    async with console(browser) as found:
        yield found


@pytest.fixture(scope="module", params=[CapsuleCloud, DockerCapsuleCloud], ids=["cri", "docker"])
def capsules(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, engine: Engine
) -> Iterator[CapsuleCloud]:
    made: CapsuleCloud = request.param(tmp_path_factory.mktemp("capsules"), engine)
    try:
        yield made.start()
    finally:
        made.close()


def member_of(capsules: CapsuleCloud, **entry: Any) -> str:
    return str(capsules.wait(capsules.create(entry), "Running")["containers"][0]["uuid"])


def exec_url(capsules: CapsuleCloud, member: str) -> str:
    asked = {"command": "sh", "interactive": "True", "run": "False"}
    answer = capsules.http.post(f"/v1/containers/{member}/execute", params=asked)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["proxy_url"])


async def test_exec_in_a_member_types_ends_and_opens_again(tab: Console, capsules: CapsuleCloud) -> None:
    member = member_of(capsules)
    first = exec_url(capsules, member)
    await tab.open(first)
    assert await tab.state("connected") == "Connected."
    await tab.type("echo from $((6 * 7))\n")
    await tab.shows("from 42")
    await tab.type("exit 3\n")
    assert await tab.state("ended") == "Ended with exit code 3."
    await tab.open(first)
    assert await tab.state("refused") == "Refused: The token was used already; ask for a new session."
    await tab.open(exec_url(capsules, member))
    await tab.state("connected")
    await tab.type("echo fresh $((1 + 1))\n")
    await tab.shows("fresh 2")


async def test_an_attached_member_is_let_go_of_by_its_keys(tab: Console, capsules: CapsuleCloud) -> None:
    member = member_of(capsules, command=["sh"], stdin=True, tty=True)
    for times in (2, 3):  # the same shell: it went on
        answer = capsules.http.get(f"/v1/containers/{member}/attach")
        await tab.open(str(answer.json()))
        await tab.state("connected")
        await tab.type(f"kept=${{kept:-1}}$((40 + {times})); echo has $kept\n")
        await tab.shows("has 142" if times == 2 else "has 14243")
        await tab.page.keyboard.press("Control+P")
        await tab.page.keyboard.press("Control+Q")
        assert await tab.state("ended") == "Ended: Detached; the container goes on."
    assert capsules.http.get(f"/v1/containers/{member}").json()["status"] == "Running"
