"""Every way a session is refused or lost: the answer or close code, and the line in the audit."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.wait import eventually
from tests.support.wsproxy import EXEC_ID, URL, ProxyRig, opened, proxy_rig
from zun.store import capsules
from zun.wsproxy.framing import CONSOLE

pytestmark = pytest.mark.timeout(120)
Address = Callable[[ProxyRig], Awaitable[str]]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ProxyRig]:
    async with proxy_rig(tmp_path) as made:
        yield made


async def refused(rig: ProxyRig, url: str, **more: Any) -> tuple[int, str]:
    """What the client is told: the HTTP status, or the close code and its reason; no byte of data comes before."""
    async with asyncio.timeout(60):
        try:
            async with opened(url, **more) as client:
                await client.recv()
        except InvalidStatus as error:
            return error.response.status_code, error.response.body.decode()
        except ConnectionClosed as error:
            return (error.rcvd.code, error.rcvd.reason) if error.rcvd else (0, "closed without a word")
    raise AssertionError("data came")


def swap(name: str, value: str) -> Address:
    """An exec session's address with another value in its query."""

    async def address(rig: ProxyRig) -> str:
        return re.sub(rf"{name}=[^&]*", f"{name}={value}" if value else "", await rig.exec_url())

    return address


async def _nothing(rig: ProxyRig) -> str:
    return rig.url


async def _attach_with_exec(rig: ProxyRig) -> str:
    return f"{await rig.attach_url()}&exec_id={EXEC_ID}"


async def _used(rig: ProxyRig) -> str:
    url = await rig.exec_url()
    async with opened(url) as client:
        await client.send(b"x")
        await client.recv()
    await eventually(lambda: rig.lines, 30, "the first session is over")
    rig.lines.clear()
    return url


async def _in_use(rig: ProxyRig) -> str:
    url = await rig.exec_url()
    client = await opened(url)
    rig.clients.append(client)
    await client.send(b"x")
    await client.recv()
    return url


async def _old(rig: ProxyRig) -> str:
    url = await rig.exec_url()
    rig.plane.clock.ahead = timedelta(seconds=601)
    return url


async def _others_container(rig: ProxyRig) -> str:
    """A good token with another tenant's container."""
    other = rig.plane.client(project_id="other", user_id="else")
    foreign = await rig.plane.create(other, interactive=True)
    return re.sub("uuid=[^&]*", f"uuid={foreign['uuid']}", await rig.exec_url())


async def _others_exec(rig: ProxyRig) -> str:
    """Of the same container, but another session's."""
    uuid = await rig.container()
    await rig.exec_url(uuid, "ab" * 32)
    return (await rig.exec_url(uuid)).replace(EXEC_ID, "ab" * 32)


async def _deleted(rig: ProxyRig) -> str:
    uuid = await rig.container()
    url = await rig.attach_url(uuid)
    async with rig.plane.db.write() as connection:
        assert await capsules.remove(connection, uuid, {})
    return url


NOT_VALID, NO_CONTAINER = "The token is not valid.", "The token is not of this container."
NO_EXEC = "The token is not of this exec session."
USED, EXPIRED = "The token was used already; ask for a new session.", "The token has expired; ask for a new session."


@pytest.mark.parametrize(
    ("address", "reason", "known"),
    [
        pytest.param(_nothing, "The address has no token.", False, id="no token"),
        pytest.param(swap("token", "w" * 43), NOT_VALID, False, id="wrong token"),
        pytest.param(swap("token", "%00%ff"), NOT_VALID, False, id="token of other bytes"),
        pytest.param(swap("token", str(uuid4())), NOT_VALID, False, id="token as the original's"),
        pytest.param(_deleted, NOT_VALID, False, id="container deleted"),
        pytest.param(_used, USED, True, id="reused token"),
        pytest.param(_in_use, USED, True, id="token in use"),
        pytest.param(_old, EXPIRED, True, id="old token"),
        pytest.param(swap("uuid", str(uuid4())), NO_CONTAINER, True, id="wrong uuid"),
        pytest.param(swap("uuid", ""), NO_CONTAINER, True, id="no uuid"),
        pytest.param(_others_container, NO_CONTAINER, True, id="foreign container"),
        pytest.param(swap("exec_id", "ab" * 32), NO_EXEC, True, id="wrong exec id"),
        pytest.param(swap("exec_id", ""), NO_EXEC, True, id="no exec id"),
        pytest.param(_others_exec, NO_EXEC, True, id="exec of another session"),
        pytest.param(_attach_with_exec, NO_EXEC, True, id="attach with an exec id"),
    ],
)
async def test_s4_7_refused_by_token(rig: ProxyRig, address: Address, reason: str, known: bool) -> None:
    url = await address(rig)
    assert await refused(rig, url) == (1008, reason)
    await eventually(lambda: rig.lines, 30, "it is in the audit")
    (line,) = rig.audit()
    assert (line["result"], line["code"], line["reason"]) == ("refused", "1008", reason)
    assert (line["user"], line["project"]) == (("user1", "proj1") if known else ("-", "-"))
    assert (line["from"], line["bytes_in"], line["bytes_out"]) == ("127.0.0.1", "0", "0")
    token = re.search("token=([^&]+)", url)
    assert token is None or token[1] not in rig.lines[0]


@pytest.mark.parametrize(
    ("more", "status", "text"),
    [
        ({"origin": "http://dashboard.example.org"}, 403, "Origin header does not match this host."),
        ({"origin": "https://127.0.0.1"}, 403, "Origin header protocol does not match this host."),
        ({"origin": "null"}, 403, "Origin header not valid."),
        (
            {"origin": "http://evil", "additional_headers": {"X-Forwarded-Host": "evil"}},
            403,
            "Origin header does not match this host.",
        ),
        ({"subprotocols": ["v1.other"]}, 400, "none of the sub-protocols is known"),
        ({"subprotocols": ["base64", "v1.other"]}, 400, "none of the sub-protocols is known"),
    ],
)
async def test_refused_before_the_upgrade(rig: ProxyRig, more: dict[str, Any], status: int, text: str) -> None:
    url = await rig.exec_url()
    found = await refused(rig, url, **more)
    assert found[0] == status
    assert text in found[1]
    await eventually(lambda: rig.lines, 30, "it is in the audit")
    (line,) = rig.audit()
    assert (line["result"], line["code"], line["exec_id"]) == ("refused", str(status), EXEC_ID)
    assert text in line["reason"]
    async with opened(url) as client:  # the token stays good
        await client.send(b"x")
        assert await client.recv() == b"x"


@pytest.mark.parametrize("subprotocols", [[CONSOLE], ["v1.other", CONSOLE]])
async def test_a_page_reads_in_the_close_code_why_its_origin_is_refused(rig: ProxyRig, subprotocols: list[str]) -> None:
    url, reason = await rig.exec_url(), "Origin header does not match this host."
    async with opened(url, subprotocols=subprotocols, origin="http://evil") as client:
        with contextlib.suppress(ConnectionClosed):
            await client.send(b"x")  # which nobody reads
        with pytest.raises(ConnectionClosed):
            await client.recv()
        assert (client.close_code, client.close_reason) == (1008, reason)
    assert await refused(rig, url, subprotocols=[CONSOLE, "binary"], origin="http://evil") == (403, f"{reason}\n")
    await eventually(lambda: len(rig.lines) == 2, 30, "both are in the audit")
    line, in_http = rig.audit()
    assert (line["code"], in_http["code"]) == ("1008", "403")
    assert (line["result"], line["reason"], line["bytes_in"]) == ("refused", reason, "0")
    assert (line["user"], line["container"]) == ("-", in_http["container"])
    assert rig.relay.paths == []
    async with opened(url, subprotocols=subprotocols) as client:  # the token stays good
        assert await client.recv() == '{"open":{"tty":true}}'


async def test_s4_11_a_dashboard_is_refused_until_it_is_named(tmp_path: Path) -> None:
    origin = "http://dashboard.example.org:8080"
    async with proxy_rig(tmp_path, {"websocket_proxy.allowed_origins": "a, Dashboard.example.org"}) as rig:
        async with opened(await rig.exec_url(), origin=origin) as client:
            await client.send(b"x")
            assert await client.recv() == b"x"
        assert (await refused(rig, await rig.exec_url(), origin="http://b"))[0] == 403


@pytest.mark.parametrize(("trusted", "status"), [("127.0.0.1", 101), ("192.0.2.1", 403)])
async def test_a_balancer_is_believed_only_if_it_is_trusted(tmp_path: Path, trusted: str, status: int) -> None:
    options = {
        "websocket_proxy.base_url": "wss://127.0.0.1/sessions",
        "websocket_proxy.trusted_proxies": trusted,
    }
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "198.51.100.7"}
    async with proxy_rig(tmp_path, options) as rig:
        query = (await rig.exec_url()).partition("?")[2]
        more: dict[str, Any] = {"origin": "http://127.0.0.1", "additional_headers": forwarded}
        url = f"{rig.url}sessions?{query}"
        if status == 101:
            async with opened(url, **more) as client:
                await client.send(b"x")
                await client.recv()
        else:
            assert (await refused(rig, url, **more))[0] == status
        await eventually(lambda: rig.lines, 30, "it is in the audit")
        assert rig.audit()[0]["from"] == ("198.51.100.7" if status == 101 else "127.0.0.1")


async def test_more_sessions_than_it_takes(tmp_path: Path) -> None:
    async with proxy_rig(tmp_path, {"websocket_proxy.max_sessions": 1}) as rig:
        first = await rig.exec_url()
        async with opened(first) as client:
            await client.send(b"x")
            await client.recv()
            assert (await refused(rig, await rig.exec_url()))[0] == 503
            url = await rig.exec_url()
            for _ in range(2):  # who is refused does not count
                too_many = (1013, "Too many sessions are open; try again.")
                assert await refused(rig, url, subprotocols=[CONSOLE]) == too_many
        await eventually(lambda: not rig.counted, 30, "the first is over")
        assert [line["code"] for line in rig.audit()] == ["503", "1013", "1013", "1000"]
        async with opened(url, subprotocols=[CONSOLE]) as client:
            assert await client.recv() == '{"open":{"tty":true}}'


async def test_a_node_without_relay_leaves_the_token_good(rig: ProxyRig) -> None:
    url = await rig.exec_url()
    await rig.plane.set_service(relay=None)
    assert await refused(rig, url) == (1011, "The node of the container offers no sessions now.")
    await rig.plane.set_service(relay=rig.relay.address)
    async with opened(url) as client:
        await client.send(b"x")
        assert await client.recv() == b"x"
    await eventually(lambda: len(rig.lines) == 2, 30, "both are in the audit")
    assert [line["result"] for line in rig.audit()] == ["lost", "left"]


async def test_a_node_that_cannot_be_reached(rig: ProxyRig) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        await rig.plane.set_service(relay=f"127.0.0.1:{closed.getsockname()[1]}")
        assert await refused(rig, await rig.exec_url()) == (1011, "The node of the container cannot be reached.")
    await eventually(lambda: rig.lines, 30, "it is in the audit")
    assert (rig.audit()[0]["result"], rig.audit()[0]["user"]) == ("lost", "user1")


async def test_another_machine_in_the_nodes_place_gets_no_session(rig: ProxyRig) -> None:
    """Its certificate is for other names."""
    await rig.plane.set_service(relay=rig.relay.address.replace("127.0.0.1", "127.0.0.2"))
    assert (await refused(rig, await rig.exec_url()))[0] == 1011
    assert rig.relay.paths == []


async def test_a_node_that_dies_in_the_middle(rig: ProxyRig) -> None:
    async def script(connection: ServerConnection) -> None:
        await connection.recv()
        connection.transport.abort()

    rig.relay.script = script
    async with opened(await rig.exec_url()) as client:
        await client.send(b"x")
        with pytest.raises(ConnectionClosed):
            await client.recv()
        assert (client.close_code, client.close_reason) == (1011, "The node of the container was lost.")
    await eventually(lambda: rig.lines, 30, "it is in the audit")
    assert (rig.audit()[0]["result"], rig.audit()[0]["bytes_in"]) == ("lost", "1")


async def test_a_node_that_falls_silent_in_the_middle(tmp_path: Path) -> None:
    async with proxy_rig(tmp_path, {f"websocket_proxy.ping_{name}": 1 for name in ("interval", "timeout")}) as rig:

        async def script(connection: ServerConnection) -> None:
            connection.transport.pause_reading()
            await connection.wait_closed()

        rig.relay.script = script
        assert await refused(rig, await rig.exec_url()) == (1011, "The node of the container does not answer.")
        for one in rig.relay.open:
            one.transport.abort()


async def test_one_cannot_write_lines_into_the_audit(rig: ProxyRig) -> None:
    url = f"{rig.url}?token=a&uuid=x%0Aaction%3Dsession%20user%3Droot%20%22&exec_id=%E2%80%A8"
    assert (await refused(rig, url))[0] == 1008
    await eventually(lambda: rig.lines, 30, "it is in the audit")
    assert "\n" not in rig.lines[0]
    assert "\u2028" not in rig.lines[0]
    assert rig.audit()[0]["user"] == "-"


async def test_a_database_that_is_away_is_told(rig: ProxyRig, monkeypatch: pytest.MonkeyPatch) -> None:
    from zun.store import sessions
    from zun.store.database import DatabaseUnavailable

    url = await rig.exec_url()

    async def away(*_: Any) -> None:
        raise DatabaseUnavailable("It is away.")

    monkeypatch.setattr(sessions, "by_hash", away)
    assert await refused(rig, url) == (1011, "The session cannot be looked up now; try again.")
    monkeypatch.undo()
    async with opened(url) as client:
        await client.send(b"x")
        assert await client.recv() == b"x"


async def test_s4_2_unknown_containers_have_no_sessions(rig: ProxyRig) -> None:
    answer = await rig.plane.client().post(f"{URL}/{uuid4()}/execute", json={"command": "sh", "run": False})
    assert answer.status_code == 404
