"""Surprises: a correlation id for the caller, the reason in the log, nothing of the inside in the answer."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from tests.support.api import Api, fault, make_api
from zun.api.call import Answer, Call
from zun.api.decoding import ClientDisconnected, read_body
from zun.api.router import Router
from zun.api.table import Route
from zun.domain import errors
from zun.store.database import DatabaseUnavailable


async def _surprise(call: Call) -> Answer:
    raise RuntimeError("secret %d %s {0} of the inside")


async def _unwritable(call: Call) -> Answer:
    return Answer({"what": object()})


async def _unavailable(call: Call) -> Answer:
    raise errors.HostUnreachable("Host node1 did not answer within 60 s.")


async def _node_fault(call: Call) -> Answer:
    raise errors.EngineError("%2F is not a path")


async def _conflict(call: Call) -> Answer:
    raise errors.InvalidStateException("start", "u", "Running %d")


async def _database_down(call: Call) -> Answer:
    raise DatabaseUnavailable("The database does not answer: unable to open /var/lib/zun.sqlite")


async def _placement_down(call: Call) -> Answer:
    try:
        await _database_down(call)
    except errors.Unavailable as error:
        raise errors.PlacementUnavailable(f"Placement does not answer: {error}") from error
    raise AssertionError


ROUTES = [
    Route("GET", "/placement", "test.placement", _placement_down),
    Route("GET", "/database", "test.database", _database_down),
    Route("GET", "/surprise", "test.surprise", _surprise),
    Route("GET", "/unwritable", "test.unwritable", _unwritable),
    Route("GET", "/unavailable", "test.unavailable", _unavailable),
    Route("GET", "/node", "test.node", _node_fault),
    Route("GET", "/conflict", "test.conflict", _conflict),
]


@pytest.mark.parametrize("path", ["surprise", "unwritable", "node"])
async def test_surprises(tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str) -> None:
    async with make_api(tmp_path, routes=ROUTES) as api:
        with caplog.at_level(logging.ERROR):
            answer = await api.client().get(f"/v1/{path}")
    error = fault(answer)
    assert (error["status"], error["code"], error["title"]) == (500, "container.", "Internal Server Error")
    found = re.search(r"Error Correlation id is: ([0-9a-f-]{36})$", error["detail"])
    assert found
    assert "secret" not in answer.text
    logged = [record for record in caplog.records if found[1] in record.getMessage()]
    assert len(logged) == 1
    assert logged[0].exc_info
    assert answer.headers["x-openstack-request-id"] in logged[0].getMessage()
    assert answer.headers["openstack-api-version"] == "container 1.40"


async def test_unavailable_says_what(tmp_path: Path) -> None:
    async with make_api(tmp_path, routes=ROUTES) as api:
        error = fault(await api.client().get("/v1/unavailable"))
    assert (error["status"], error["title"]) == (503, "Host node1 did not answer within 60 s.")


async def test_known_errors_have_slug_and_message(tmp_path: Path) -> None:
    async with make_api(tmp_path, routes=ROUTES) as api:
        error = fault(await api.client().get("/v1/conflict"))
    assert (error["status"], error["code"]) == (409, "container.invalid-state-exception")
    assert error["title"] == error["detail"] == "Cannot start container u in Running %d state"


@pytest.mark.parametrize("path", ["database", "placement"])
async def test_database_down_is_503_without_its_address(tmp_path: Path, path: str) -> None:
    """Also where the part that lives in it reports the outage."""
    async with make_api(tmp_path, routes=ROUTES) as api:
        answer = await api.client().get(f"/v1/{path}")
    assert answer.status_code == 503
    assert "sqlite" not in answer.text
    assert fault(answer)["title"] == "The database does not answer now. Try again later."
    assert "Error Correlation id is: " in fault(answer)["detail"]


async def test_messages_have_an_end(tmp_path: Path) -> None:
    async with make_api(tmp_path) as api:
        answer = await api.client().get(f"/v1/containers/{'x' * 50_000}")
    assert fault(answer)["status"] == 404
    assert len(answer.text) < 4096


async def test_a_client_that_goes_away_ends_the_reading() -> None:
    messages: list[dict[str, object]] = [
        {"type": "http.request", "body": b"x", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> dict[str, object]:
        return messages.pop(0)

    with pytest.raises(ClientDisconnected):
        await read_body(receive, None, 100)


async def test_nothing_is_sent_to_a_client_that_went_away(api: Api) -> None:
    api.client(token="t")
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/registries",
        "raw_path": b"/v1/registries",
        "query_string": b"",
        "headers": [(b"x-auth-token", b"token-proj1-user1-member"), (b"content-type", b"application/json")],
        "scheme": "http",
        "server": ("localhost", 80),
        "client": ("127.0.0.1", 1),
    }
    api.client()
    sent: list[object] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.disconnect"}

    async def send(message: object) -> None:
        sent.append(message)

    await api.app(scope, receive, send)
    assert sent == []


def test_two_rows_for_one_version_are_a_programming_error() -> None:
    with pytest.raises(ValueError, match="same version"):
        Router([*ROUTES, ROUTES[0]])


async def test_lifespan_and_other_protocols(api: Api) -> None:
    incoming = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[dict[str, object]] = []

    async def receive() -> dict[str, str]:
        return incoming.pop(0)

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    await api.app({"type": "lifespan"}, receive, send)
    assert [one["type"] for one in sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    sent.clear()
    await api.app({"type": "websocket"}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]
