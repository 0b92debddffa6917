"""A headless Chromium, and the page of sessions as a reader sees it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, TimeoutError, async_playwright

from tests.support.still_network import still_network
from tests.support.wait import eventually

_PROGRAM = "/usr/bin/chromium"
_FLAGS = ["--no-first-run", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync",
          "--disable-component-update"]  # fmt: skip
_SECONDS = 60.0
_NOT_OF_THE_PAGE = (
    "WebSocket connection to",  # a refused handshake is told whatever the page does; tests of it look at the page
    "task queue exceeded allotted deadline",  # xterm.js, of a processor that was busy with something else
)
DESKTOP = {"viewport": {"width": 900, "height": 500}}
PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Debian's, with a profile of its own that is deleted afterwards. A machine without it fails the test."""
    program = shutil.which("chromium") or _PROGRAM
    if shutil.which(program) is None:
        pytest.fail("Chromium is not installed; `make test` installs it.")
    with tempfile.TemporaryDirectory() as folder:
        async with still_network(program, Path(folder)) as (script, flags), async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=script, chromium_sandbox=False, args=_FLAGS + flags
            )
            try:
                yield browser
            finally:
                await browser.close()


def page_url(session_url: str) -> str:
    """Where a browser opens the session of a URL that the API gave."""
    return session_url.replace("ws", "http", 1).replace("/?", "/console?")


class Console:
    """The page in one tab. What the browser complains of is kept, and ``close`` fails for it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.set_default_timeout(_SECONDS * 1000)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(text in message.text for text in _NOT_OF_THE_PAGE):
            self.complaints.append(message.text)

    async def open(self, session_url: str) -> None:
        """Goes to the page with the session of a URL that the API gave."""
        await self.page.goto(page_url(session_url))

    async def state(self, wanted: str) -> str:
        """What the page says, once its state is this one."""
        try:
            await self.page.wait_for_selector(f"#state[data-state={wanted}]")
        except TimeoutError as error:
            found = await self.page.inner_text("#state", timeout=5000)
            raise AssertionError(f"not {wanted}: {found}; complaints: {self.complaints}") from error
        return await self.page.inner_text("#state")

    async def type(self, text: str) -> None:
        """As keys, into the terminal."""
        await self.page.focus(".xterm-helper-textarea")
        await self.page.keyboard.type(text)

    async def screen(self) -> list[str]:
        """The lines that are painted."""
        rows = await self.page.locator(".xterm-rows > div").all_inner_texts()
        return [row.replace("\xa0", " ").rstrip() for row in rows]

    async def shows(self, line: str) -> None:
        """Returns when such a line is painted."""
        try:
            await eventually(lambda: self._has(line), _SECONDS, f"the line {line!r}")
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen: {await self.screen()}") from error

    async def _has(self, line: str) -> bool:
        return line in await self.screen()

    async def paste_url(self, session_url: str) -> None:
        """Into the field for the next session."""
        await self.page.fill("#url", session_url)
        await self.page.click("#open button")


@asynccontextmanager
async def console(browser: Browser, **context: Any) -> AsyncIterator[Console]:
    """A tab in a profile of its own; fails at the end if the browser complained, of the policy for one."""
    settings: dict[str, Any] = DESKTOP | context
    made: BrowserContext = await browser.new_context(**settings)
    try:
        found = Console(await made.new_page())
        yield found
        assert found.complaints == [], found.complaints
    finally:
        await made.close()


async def socket_opens(page: Page, url: str, protocols: list[str]) -> bool:
    """Whether a script of the page that is shown now can open a session."""
    script = """([url, protocols]) => new Promise((resolve) => {
        const socket = new WebSocket(url, protocols);
        socket.onopen = () => { socket.close(); resolve(true); };
        socket.onerror = () => resolve(false);
    })"""
    return bool(await page.evaluate(script, [url, protocols]))


async def socket_closes(page: Page, url: str, protocols: list[str]) -> list[Any]:
    """Code and reason with which such a session ends, and how many messages came before."""
    script = """([url, protocols]) => new Promise((resolve) => {
        const socket = new WebSocket(url, protocols);
        let messages = 0;
        socket.onmessage = () => messages++;
        socket.onclose = ({ code, reason }) => resolve([code, reason, messages]);
    })"""
    return list(await page.evaluate(script, [url, protocols]))
