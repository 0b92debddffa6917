"""Creating containers: what the versions of the API make of commands and terminals."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.containers import Plane, refused

URL = "/v1/containers"


GATES = [
    ("auto_remove", False, "1.2", "1.3"),
    ("runtime", "runc", "1.4", "1.5"),
    ("hostname", "h", "1.8", "1.9"),
    ("mounts", [{"size": 1, "destination": "/d"}], "1.10", "1.11"),
    ("privileged", False, "1.20", "1.21"),
    ("healthcheck", {"cmd": "ls"}, "1.21", "1.22"),
    ("exposed_ports", {"80": {}}, "1.23", "1.24"),
    ("registry", "reg1", "1.30", "1.31"),
]


@pytest.mark.parametrize(("field", "value", "below", "since"), GATES, ids=[gate[0] for gate in GATES])
async def test_fields_have_their_version(plane: Plane, field: str, value: Any, below: str, since: str) -> None:
    status, slug, title = await refused(plane, {"image": "cirros", field: value}, below)
    assert (status, slug) == (400, "invalid-param-in-version")
    assert title == (
        f"Invalid param {field} because current request version is {below}. "
        f"{field} is only supported from version {since}"
    )


@pytest.mark.parametrize(("field", "value", "below"), [("host", "node1", "1.38"), ("entrypoint", ["a"], "1.39")])
async def test_newest_fields_are_unknown_before(plane: Plane, field: str, value: Any, below: str) -> None:
    assert (await refused(plane, {"image": "cirros", field: value}, below))[:2] == (400, "schema-validation-error")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sleep 1000", ["sleep", "1000"]),
        ('"sleep" "1000"', ["sleep", "1000"]),
        ('"sleep 1000"', ["sleep", "1000"]),
        ("\"sh -c 'echo a b'\"", ["sh", "-c", "echo a b"]),
        ('"env"', ["env"]),
        ("", []),
    ],
)
async def test_old_commands_are_split_as_a_shell_does(plane: Plane, text: str, words: list[str]) -> None:
    client = plane.client(version="1.12")
    made = await plane.create(client, None, command=text)
    assert (await client.get(f"{URL}/{made['uuid']}")).json()["command"] == words


async def test_old_command_with_an_open_quote_is_400(plane: Plane) -> None:
    assert (await refused(plane, {"image": "cirros", "command": 'a "b'}, "1.19"))[:2] == (400, "invalid-value")


@pytest.mark.parametrize(
    ("version", "body", "tty"),
    [
        ("1.19", {"interactive": True}, False),
        ("1.20", {"interactive": True}, True),
        ("1.35", {"interactive": False, "tty": True}, False),
        ("1.35", {"tty": True}, True),
        ("1.36", {"interactive": True}, False),
    ],
)
async def test_tty_follows_interactive_in_some_versions(
    plane: Plane, version: str, body: dict[str, Any], tty: bool
) -> None:
    assert (await plane.create(plane.client(version=version), None, **body))["tty"] is tty
