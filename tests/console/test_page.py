"""The page of sessions in a browser: real proxy, real API, and a shell of this machine in the place of a relay."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from tests.support.browser import PHONE, Console, chromium, console, page_url, socket_closes, socket_opens
from tests.support.pty_shell import shell
from tests.support.wait import eventually
from tests.support.wsproxy import ProxyRig, proxy_rig
from zun.wsproxy.framing import CONSOLE

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("chromium")]

TERMINAL = "#terminal .xterm-screen"
FIELD = ".xterm-helper-textarea"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as found:
        yield found


@asynccontextmanager
async def rig_with_page(folder: Path, **options: Any) -> AsyncIterator[ProxyRig]:
    settings = {f"websocket_proxy.{name}": value for name, value in options.items()}
    async with proxy_rig(folder, settings) as rig:
        rig.relay.script = shell
        yield rig


@pytest_asyncio.fixture(loop_scope="module")
async def rig(tmp_path: Path) -> AsyncIterator[ProxyRig]:
    async with rig_with_page(tmp_path) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def tab(browser: Browser) -> AsyncIterator[Console]:
    async with console(browser) as found:
        yield found


async def connected(tab: Console, rig: ProxyRig) -> str:
    """Opens a new session in the tab; its URL."""
    url = await rig.exec_url()
    await tab.open(url)
    await tab.state("connected")
    await tab.shows("$")
    return url


async def test_a_command_is_typed_and_its_output_is_shown(tab: Console, rig: ProxyRig) -> None:
    await connected(tab, rig)
    # Colours of all kinds and a character beyond one byte: the strict policy stands in the way of none of them.
    await tab.type("printf '\\033[38;2;10;90;30mgr\\303\\274n \\033[1;44mblue\\033[0m\\n'; echo $((6 * 7))\n")
    await tab.shows("grün blue")
    await tab.shows("42")
    painted = tab.page.locator(".xterm-rows span", has_text="grün")
    colour = await painted.last.evaluate("(span) => getComputedStyle(span).color")
    assert colour == "rgb(10, 90, 30)"


async def test_the_token_leaves_the_address_and_the_history_at_once(tab: Console, rig: ProxyRig) -> None:
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(f"{request.url} {request.headers.get('referer', '')}"))
    url = await connected(tab, rig)
    token = url.partition("token=")[2].partition("&")[0]
    assert tab.page.url == f"http://127.0.0.1:{rig.port}/console"
    entry = await tab.page.evaluate("JSON.stringify([history.length, history.state, localStorage, sessionStorage])")
    assert token not in entry
    assert [line for line in asked if token in line] == [asked[0]]


@pytest.mark.parametrize("lost", ["console.js", "console.css"])
async def test_a_page_that_a_part_of_has_not_arrived_asks_to_be_reloaded(
    tab: Console, rig: ProxyRig, lost: str
) -> None:
    """As where the browser's network changes meanwhile. The token has not been used: the reloaded page connects."""
    await tab.page.route(f"**/{lost}", lambda route: route.abort())
    await tab.open(await rig.exec_url())
    await tab.page.get_by_text("A part of this page has not arrived: reload it.").wait_for()
    await tab.page.unroute(f"**/{lost}")
    await tab.page.reload()
    await tab.state("connected")
    assert await tab.page.locator("#unstarted").count() == 0
    tab.complaints.clear()


async def test_the_exit_code_is_shown_and_the_next_session_is_asked_for(tab: Console, rig: ProxyRig) -> None:
    await connected(tab, rig)
    assert not await tab.page.is_visible("#next")
    await tab.type("exit 3\n")
    assert await tab.state("ended") == "Ended with exit code 3."
    assert not await tab.page.is_visible("#again")
    await tab.paste_url("http://127.0.0.1/?token=only")
    assert "uuid=" in await tab.page.inner_text("#url-error")
    await tab.paste_url(await rig.exec_url())
    assert await tab.state("connected") == "Connected."
    assert not await tab.page.is_visible("#next")
    await tab.type("echo next one\n")
    await tab.shows("next one")
    assert "exit 3" not in "".join(await tab.screen())


async def test_the_terminal_follows_the_window(tab: Console, rig: ProxyRig) -> None:
    await connected(tab, rig)
    sizes = []
    for width, height in ((900, 500), (500, 700)):
        await tab.page.set_viewport_size({"width": width, "height": height})
        rows, columns = await eventually(lambda: _size(tab), 20, "the shell has the size of what is painted")
        await tab.type(f"clear; printf '%0*d\\n' {columns} 1; printf '%0*d\\n' {columns + 1} 2\n")
        await tab.shows("2")  # the wider one went on in the next row
        assert f"{1:0{columns}d}" in await tab.screen()
        box = await tab.page.locator(TERMINAL).bounding_box()
        assert box is not None
        assert width - 30 < box["x"] + box["width"] <= width
        assert height - 30 < box["y"] + box["height"] <= height
        sizes.append((rows, columns))
    assert sizes[0][0] < sizes[1][0]
    assert sizes[0][1] > sizes[1][1]


async def _size(tab: Console) -> tuple[int, int] | None:
    """What the shell believes, if it is true."""
    await tab.type("clear; stty size\n")
    told = await eventually(lambda: _told(tab), 10, "stty answers")
    fills = """() => {
        const rows = document.querySelectorAll(".xterm-rows > div"), room = document.querySelector("#terminal");
        const fitting = Math.floor(room.clientHeight / rows[0].clientHeight);
        return rows.length === fitting && fitting;
    }"""
    return told if await tab.page.evaluate(fills) == told[0] else None


async def _told(tab: Console) -> tuple[int, int] | None:
    for line in await tab.screen():
        if found := re.fullmatch(r"(\d+) (\d+)", line):
            return int(found[1]), int(found[2])
    return None


async def test_a_reload_ends_the_session_and_a_fresh_token_opens_the_next(tab: Console, rig: ProxyRig) -> None:
    await connected(tab, rig)
    await tab.page.reload()
    assert (await tab.state("idle")).startswith("No session: this page was opened without one, or was reloaded.")
    await eventually(lambda: not rig.relay.open, 20, "the session of the page before is over")
    await connected(tab, rig)
    await tab.type("echo back again\n")
    await tab.shows("back again")


async def test_an_old_token_shows_the_refusal(tab: Console, rig: ProxyRig) -> None:
    url = await connected(tab, rig)
    await tab.open(url)
    assert await tab.state("refused") == "Refused: The token was used already; ask for a new session."
    assert await tab.page.is_visible("#open")
    assert not await tab.page.is_visible("#again")
    await tab.open(url.replace("token=", "token=x"))
    assert await tab.state("refused") == "Refused: The token is not valid."


async def test_a_session_whose_node_goes_is_lost(tab: Console, rig: ProxyRig) -> None:
    await connected(tab, rig)
    await rig.relay.open[0].close(1011, "The engine broke off.")
    assert await tab.state("lost") == "Lost: The engine broke off."
    assert await tab.page.is_visible("#open")
    assert not await tab.page.is_visible("#again")


async def test_what_did_not_come_up_is_tried_again_with_the_same_token(browser: Browser, tmp_path: Path) -> None:
    async with rig_with_page(tmp_path, max_sessions=1) as rig, console(browser) as first, console(browser) as second:
        await connected(first, rig)
        await second.open(await rig.exec_url())
        assert await second.state("failed") == "No connection: Too many sessions are open; try again."
        await first.type("exit\n")
        await first.state("ended")
        await eventually(lambda: not rig.counted, 30, "the first is over")
        await second.page.click("#again")
        await second.state("connected")
        await second.type("echo came up\n")
        await second.shows("came up")


async def test_a_page_that_comes_by_another_scheme_than_the_proxy_is_told_has_the_reason(
    tab: Console, tmp_path: Path
) -> None:
    """As behind a balancer that ends TLS, and of which the proxy was told nothing."""
    async with rig_with_page(tmp_path, base_url="wss://$wsproxy_host:$wsproxy_port/") as rig:
        await tab.page.goto(page_url(await rig.exec_url()).replace("https:", "http:"))
        assert await tab.state("refused") == "Refused: Origin header protocol does not match this host."
        assert await tab.page.is_visible("#open")
        await eventually(lambda: rig.lines, 30, "it is in the audit")
        assert (rig.audit()[0]["result"], rig.audit()[0]["code"]) == ("refused", "1008")


async def test_only_dashboards_of_the_list_open_sessions_and_frame_the_page(browser: Browser, tmp_path: Path) -> None:
    """The dashboard is at localhost, the proxy at 127.0.0.1: another host to the browser and to the proxy."""
    async with dashboard() as url, console(browser) as tab:
        for allowed in ([], ["localhost"]):
            (folder := tmp_path / f"allowed{len(allowed)}").mkdir()
            async with rig_with_page(folder, allowed_origins=",".join(allowed)) as rig:
                await tab.page.goto(url)
                assert await socket_opens(tab.page, await rig.exec_url(), ["binary", "base64"]) is bool(allowed)
                address = page_url(await rig.exec_url())
                await tab.page.evaluate("(url) => { document.querySelector('iframe').src = url }", address)
                frame = tab.page.frame_locator("iframe")
                if allowed:
                    await frame.locator("#state[data-state=connected]").wait_for()
                else:
                    closed = await socket_closes(tab.page, await rig.exec_url(), [CONSOLE])
                    assert closed == [1008, "Origin header does not match this host.", 0]
                    await eventually(lambda: _framing_refused(tab), 20, "the frame is refused")
                    assert await frame.locator("#state").count() == 0
                    tab.complaints.clear()
                await tab.page.goto("about:blank")


def _framing_refused(tab: Console) -> bool:
    return any("frame-ancestors" in line for line in tab.complaints)


@asynccontextmanager
async def dashboard() -> AsyncIterator[str]:
    """A page of another host, with an empty frame."""
    body = b"<!doctype html><link rel=icon href=data:,><title>Dashboard</title><iframe width=800 height=400></iframe>"

    def page(connection: ServerConnection, request: Request) -> Response:
        headers = Headers({"Content-Type": "text/html", "Content-Length": str(len(body)), "Connection": "close"})
        return Response(200, "OK", headers, body)

    async def never(connection: ServerConnection) -> None:
        raise AssertionError("every request is answered by the page")

    async with serve(never, "127.0.0.1", 0, process_request=page, family=socket.AF_INET) as serving:
        yield f"http://localhost:{serving.sockets[0].getsockname()[1]}/"


async def test_copy_and_paste(browser: Browser, rig: ProxyRig) -> None:
    async with console(browser, permissions=["clipboard-read", "clipboard-write"]) as tab:
        await connected(tab, rig)
        await tab.page.evaluate("navigator.clipboard.writeText('echo päste $((40 + 2))\\n')")
        await tab.page.click("#paste")
        await tab.shows("päste 42")
        await tab.page.locator(".xterm-rows > div", has_text="päste 42").last.dblclick(
            position={"x": 15, "y": 5}, force=True
        )
        await tab.page.keyboard.press("Control+Shift+C")
        copied = "navigator.clipboard.readText()"
        await eventually(lambda: _is(tab, copied, "päste"), 10, "the word that was clicked is on the clipboard")
        await tab.page.click("#show-text")
        assert "päste 42\n$" in await tab.page.input_value("#text-body")


async def _is(tab: Console, script: str, wanted: object) -> bool:
    return bool(await tab.page.evaluate(script) == wanted)


async def test_without_the_clipboard_there_is_a_window_to_paste_into(tab: Console, rig: ProxyRig) -> None:
    await connected(tab, rig)
    await tab.page.click("#paste")
    await tab.page.fill("#text-body", "echo from the window\n")
    await tab.page.click("#text-send")
    await tab.shows("from the window")


async def test_much_that_is_pasted_arrives_whole(tab: Console, rig: ProxyRig, tmp_path: Path) -> None:
    await connected(tab, rig)
    found = tmp_path / "pasted"
    await tab.type(f"stty -echo -icanon; head -c 200000 > {found}; echo read all\n")
    await tab.page.click("#paste")
    text = "".join(f"{number:07d}\n" for number in range(25_000))
    await tab.page.locator("#text-body").evaluate("(body, text) => { body.value = text }", text)
    await tab.page.click("#text-send")
    await tab.shows("read all")
    assert found.read_text() == text


async def test_a_phone_has_the_keys_it_lacks_and_scrolls_with_a_finger(browser: Browser, rig: ProxyRig) -> None:
    async with console(browser, **PHONE) as tab:
        await connected(tab, rig)
        for key in ("Ctrl", "Esc", "Tab", "Left", "Up", "Down", "Right"):
            assert await tab.page.get_by_role("button", name=key, exact=True).is_visible()
        assert await tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await tab.page.tap(TERMINAL)
        await tab.type("cat -v\n")
        for key in ("Esc", "Up", "Left"):
            await tab.page.tap(f"#keys button:has-text('{key}')" if key == "Esc" else f"#keys [aria-label={key}]")
        await tab.type("!\n")
        await tab.shows("^[^[[A^[[D!")
        await tab.page.tap("#keys [data-modifier=ctrl]")
        assert await tab.page.get_attribute("#keys [data-modifier=ctrl]", "aria-pressed") == "true"
        await tab.type("c")
        assert await tab.page.get_attribute("#keys [data-modifier=ctrl]", "aria-pressed") == "false"
        await tab.type("seq 500; echo end of $((499 + 1))\n")
        await tab.shows("end of 500")
        await _swipe(tab, 200, 600)
        await eventually(lambda: _scrolled(tab), 10, "earlier lines are shown")


async def _scrolled(tab: Console) -> bool:
    return "end of 500" not in await tab.screen()


async def _swipe(tab: Console, start: int, end: int) -> None:
    """A finger that moves down the terminal."""
    devtools = await tab.page.context.new_cdp_session(tab.page)
    steps = [start + (end - start) * step // 10 for step in range(11)]
    for name, points in [("touchStart", steps[:1])] + [("touchMove", [y]) for y in steps[1:]] + [("touchEnd", [])]:
        touched = [{"x": 150, "y": y} for y in points]
        await devtools.send("Input.dispatchTouchEvent", {"type": name, "touchPoints": touched})


async def test_screen_readers_get_the_lines_and_the_state(tab: Console, rig: ProxyRig) -> None:
    await connected(tab, rig)
    assert await tab.page.get_by_role("status").inner_text() == "Connected."
    reader = tab.page.get_by_role("button", name="Screen reader")
    await reader.click()
    assert await reader.get_attribute("aria-pressed") == "true"
    await tab.type("echo read this\n")
    await tab.page.locator(".xterm-accessibility [role=listitem]", has_text="read this").last.wait_for(state="attached")
    await tab.page.keyboard.press("Control+Shift+F6")
    assert await tab.page.evaluate("document.activeElement.id") == "copy"
    await tab.page.reload()  # the wish is remembered
    assert await reader.get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize(("scheme", "ground"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 22, 26)")])
async def test_colours_follow_the_readers_preference(browser: Browser, rig: ProxyRig, scheme: str, ground: str) -> None:
    async with console(browser, color_scheme=scheme) as tab:
        await connected(tab, rig)
        for element in ("body", "#terminal .xterm-scrollable-element"):
            found = await tab.page.locator(element).evaluate("(it) => getComputedStyle(it).backgroundColor")
            assert found == ground
        for element in ("#state", "#copy", ".xterm-rows"):
            assert await tab.page.locator(element).evaluate(CONTRAST) >= 4.5


CONTRAST = """(element) => {
    const light = (colour) => {
        const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
        const [r, g, b] = parts.map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    let behind = element;
    const clear = (it) => getComputedStyle(it).backgroundColor === "rgba(0, 0, 0, 0)";
    while (clear(behind)) behind = behind.parentElement;
    const values = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor].map(light);
    return (Math.max(...values) + 0.05) / (Math.min(...values) + 0.05);
}"""
