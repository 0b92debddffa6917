"""Calls of other services over HTTP: what is repeated, what is refused, what is unavailable, and whose token goes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from zun.domain.errors import ServiceUnavailable
from zun.openstack import client as module
from zun.openstack.client import Refused, ServiceClient


class Auth:
    """Our account, without Keystone."""

    def __init__(self) -> None:
        self.number = 1
        self.hangs = False

    async def token(self) -> str:
        if self.hangs:
            await asyncio.Event().wait()
        return f"own{self.number}"

    async def endpoint(self, types: object, interface: str, region: object) -> str:
        raise ServiceUnavailable("Keystone", "no catalogue")

    def refused(self, token: str) -> None:
        if token == f"own{self.number}":
            self.number += 1


class Server:
    """Answers each request with the next of ``answers``; None: never."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any] | None] = []
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.port = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            await reader.readexactly(int(headers.get("content-length", 0)))
            self.seen.append((head[0].removesuffix(" HTTP/1.1"), headers))
            answer = self.answers.pop(0) if self.answers else (200, {})
            if answer is None:
                await reader.read()
                return
            body = answer[1] if isinstance(answer[1], bytes) else json.dumps(answer[1]).encode()
            writer.write(
                b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (answer[0], len(body), body)
            )
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client left
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    listening = await asyncio.start_server(made, "127.0.0.1", 0)
    made.port = listening.sockets[0].getsockname()[1]
    yield made
    listening.close()


@pytest.fixture
def auth() -> Auth:
    return Auth()


@pytest.fixture
async def client(server: Server, auth: Auth, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ServiceClient]:
    monkeypatch.setattr(module, "_RETRY_AFTER", (0.01, 0.01, 0.01))
    made = ServiceClient("Neutron", ["network"], auth, _options(server.port))  # type: ignore[arg-type]
    yield made
    await made.close()


def _options(port: int) -> Any:
    return SimpleNamespace(
        endpoint_type="publicURL", endpoint_override=f"http://127.0.0.1:{port}", region_name=None,
        ca_file=None, cert_file=None, key_file=None, insecure=False, timeout=5.0,
    )  # fmt: skip


async def test_whose_token_goes(client: ServiceClient, server: Server) -> None:
    await client.request("GET", "/a")
    await client.request("POST", "/b", json={"x": 1}, token="theirs", headers={"X-More": "1"})
    (_, own), (line, theirs) = server.seen
    assert (own["x-auth-token"], "x-service-token" in own) == ("own1", False)
    assert (line, theirs["x-auth-token"], theirs["x-service-token"], theirs["x-more"]) == (
        "POST /b",
        "theirs",
        "own1",
        "1",
    )


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429])
async def test_a_fault_that_passes_is_not_noticed(client: ServiceClient, server: Server, status: int) -> None:
    server.answers = [(status, b"oops")] * 3
    assert (await client.request("GET", "/a")).status == 200
    assert len(server.seen) == 4


async def test_a_post_is_not_sent_again_unless_told_so(client: ServiceClient, server: Server) -> None:
    server.answers = [(503, b"")]
    with pytest.raises(ServiceUnavailable, match=r"^Neutron is not available: it answered 503"):
        await client.request("POST", "/a", json={})
    assert len(server.seen) == 1
    server.answers = [(503, b"")]
    assert (await client.request("POST", "/a", json={}, repeat=True)).status == 200


async def test_a_fault_that_stays_is_told_by_name(client: ServiceClient, server: Server) -> None:
    server.answers = [(500, {"NeutronError": {"message": "no %d luck"}})] * 9
    with pytest.raises(ServiceUnavailable, match=r"Neutron is not available: it answered 500 .no %d luck"):
        await client.request("GET", "/a")
    assert len(server.seen) == 4


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"NeutronError": {"message": "gone"}}, "gone"), ({"error": {"message": "gone"}}, "gone"),
        ({"itemNotFound": {"code": 404, "message": "gone"}}, "gone"), ({"errors": [{"detail": "gone"}]}, "gone"),
        ({"message": "gone"}, "gone"), (b"<html>", "HTTP 404"), ([], "HTTP 404"), (b"", "HTTP 404"),
    ],
)  # fmt: skip
async def test_a_refusal_has_the_services_own_words_and_is_not_repeated(
    client: ServiceClient, server: Server, body: Any, message: str
) -> None:
    server.answers = [(404, body)]
    with pytest.raises(Refused) as caught:
        await client.request("GET", "/a")
    assert (caught.value.status, caught.value.message, caught.value.service) == (404, message, "Neutron")
    assert len(server.seen) == 1


async def test_our_token_refused_means_a_new_one_and_the_users_means_a_refusal(
    client: ServiceClient, server: Server, auth: Auth
) -> None:
    server.answers = [(401, {})]
    assert (await client.request("POST", "/a", json={})).status == 200
    assert [headers["x-auth-token"] for _, headers in server.seen] == ["own1", "own2"]
    server.answers = [(401, {})]
    with pytest.raises(Refused):
        await client.request("GET", "/a", token="theirs")
    assert auth.number == 2


async def test_a_service_that_never_takes_our_token(client: ServiceClient, server: Server) -> None:
    server.answers = [(401, {})] * 9
    with pytest.raises(ServiceUnavailable, match=r"Neutron .* does not take our token"):
        await client.request("GET", "/a")


async def test_nobody_listens(auth: Auth, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_AFTER", (0.01,))
    client = ServiceClient("Cinder", ["volumev3"], auth, _options(1))  # type: ignore[arg-type]
    with pytest.raises(ServiceUnavailable, match=r"Cinder is not available: no connection to 127.0.0.1:1"):
        await client.request("POST", "/a")
    await client.close()


async def test_one_try_and_all_of_it_have_deadlines(client: ServiceClient, server: Server, auth: Auth) -> None:
    server.answers = [None, (200, {"ok": 1})]
    assert (await client.request("GET", "/a", timeout=1, deadline=60)).body == {"ok": 1}
    server.answers = [None] * 9
    with pytest.raises(ServiceUnavailable, match="no answer within 1 seconds"):
        await client.request("GET", "/a", timeout=1)
    assert len(server.answers) == 8  # asked once
    began = time.monotonic()
    with pytest.raises(ServiceUnavailable, match="no answer within"):
        await client.request("GET", "/a", deadline=0.5)
    auth.hangs = True
    with pytest.raises(ServiceUnavailable, match="Keystone is not available: our own account has no token yet"):
        await client.request("GET", "/a", deadline=0.5)
    assert time.monotonic() - began < 5  # a try alone may take that long


@pytest.mark.parametrize("base", ["", "/", "/v3", "/v3/", "/identity", "/identity/v3/"])
async def test_the_version_is_part_of_the_endpoint_once(server: Server, auth: Auth, base: str) -> None:
    options = _options(server.port)
    options.endpoint_override += base
    client = ServiceClient("Keystone", ["identity"], auth, options, version="/v3")  # type: ignore[arg-type]
    await client.request("GET", "/auth/tokens")
    await client.close()
    assert server.seen[0][0] == f"GET {'/identity' if 'identity' in base else ''}/v3/auth/tokens"


async def test_a_body_that_is_not_json_is_none(client: ServiceClient, server: Server) -> None:
    server.answers = [(200, b"plain"), (204, b"")]
    assert (await client.request("GET", "/a")).body is None
    assert (await client.request("DELETE", "/a")).body is None
