"""Values that are odd, huge or of another type: stored exactly as the contract says, or refused with a 400 by name."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.api import fault
from tests.support.containers import Plane, make_plane
from zun.store.tables import containers, volume_mappings

URL = "/v1/containers"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    async with make_plane(tmp_path) as made:
        await made.add_host(cpus=1000, memory=10**7)
        unlimited = dict.fromkeys(("containers", "disk", "cpu", "memory"), -1)
        await made.client("admin").put("/v1/quotas/proj1", json=unlimited)
        yield made


async def _raw(plane: Plane, members: str) -> httpx.Response:
    content = f'{{"image": "cirros", {members}}}'.encode("utf-8", "surrogatepass")
    return await plane.client().post(URL, content=content, headers=JSON)


NOT_NUMBERS = ["1e400", "-1", "true", "false", "NaN", "Infinity", "9" * 30, '"1e2"', '"0x10"', '"１"', '"+1"', '" 1"',
               '"1_0"', "-0.0", '"NaN"', '"inf"', '""', "[]", "{}", "[1]", '"' + "1" * 5000 + '"']  # fmt: skip


@pytest.mark.parametrize("field", ["cpu", "memory", "disk"])
async def test_amounts_are_numbers_and_nothing_like_them(plane: Plane, field: str) -> None:
    for text in NOT_NUMBERS:
        error = fault(await _raw(plane, f'"{field}": {text}'))
        assert error["status"] == 400, text
        assert field in error["title"] or "not valid JSON" in error["title"], text
        assert len(error["title"]) < 700
    assert await plane.count(containers) == 0


MEMBERS = [
    '"restart_policy": {"Name": "on-failure", "MaximumRetryCount": 1e30}',
    '"restart_policy": {"Name": "on-failure", "MaximumRetryCount": true}',
    '"healthcheck": {"cmd": "x", "interval": -1}',
    '"healthcheck": {"cmd": "x", "interval": 1.5}',
    '"healthcheck": {"cmd": "x", "retries": true}',
    '"healthcheck": {"cmd": "x", "timeout": 1e400}',
    '"mounts": [{"destination": "/d", "size": -1}]',
    '"mounts": [{"destination": "/d", "size": 1e18}]',
    '"mounts": [{"destination": "/d", "size": true}]',
    '"exposed_ports": {"0": {}}',
    '"exposed_ports": {"65536/tcp": {}}',
    '"exposed_ports": {"８０": {}}',
    '"environment": {"A": {"b": 1}}',
    '"environment": {"A": 1}',
    '"environment": {"": "x"}',
    '"environment": {"A=B": "x"}',
    '"environment": {"A": "\\u0000"}',
    '"environment": {"A": "\\ud800"}',
    '"labels": [1]',
    '"labels": {"a": "\\u0000"}',
    '"workdir": "relative"',
    '"name": "%d{}"',
    '"image": "a%d{}:{0}"',
    '"hints": {"a": ' + "[" * 200 + "]" * 200 + "}",
    '"hints": {"a": ' + "9" * 5000 + "}",
    '"run": 1',
    '"tty": 1',
    '"auto_remove": "true"',
]


async def test_members_that_cannot_be(plane: Plane) -> None:
    for members in MEMBERS:
        assert fault(await _raw(plane, members))["status"] == 400, members
    assert await plane.count(containers) == 0


async def test_what_no_kernel_starts_is_refused(plane: Plane) -> None:
    long = "x" * 131_072
    for body in (
        {"environment": {"A": long}},
        {"command": [long]},
        {"entrypoint": ["/bin/sh", long]},
        {"healthcheck": {"cmd": long}},
        {"command": ["x"] * 220_000},
        {"workdir": "/" + "x" * 4096},
        {"mounts": [{"destination": "/" + "x" * 4096, "size": 1}]},
    ):
        error = fault(await plane.client().post(URL, json={"image": "cirros", **body}))
        assert (error["status"], error["code"]) == (400, "container.invalid-value"), body.keys()
    assert await plane.count(volume_mappings) == 0
    made = await plane.create(plane.client(), None, environment={"A": "x" * 131_000}, command=["x" * 131_000])
    assert made["status"] == "Creating"
    await plane.settle(made["uuid"])
    answer = await plane.client().post(f"{URL}/{made['uuid']}/execute", json={"command": long})
    assert fault(answer)["status"] == 400


@pytest.mark.parametrize(
    "body",
    [
        {"mounts": [{"destination": f"/m{n}", "size": 1} for n in range(2000)]},
        {"nets": [{"network": "n"}] * 2000},
        {"security_groups": [f"g{n}" for n in range(2000)]},
    ],
    ids=["mounts", "nets", "security_groups"],
)
async def test_lists_whose_entries_cost_work_are_bounded(plane: Plane, body: dict[str, Any]) -> None:
    started = time.monotonic()
    error = fault(await plane.client().post(URL, json={"image": "cirros", **body}))
    assert error["status"] == 400
    assert "at most 64" in error["title"]
    assert time.monotonic() - started < 10


async def test_texts_are_never_formats_and_come_back_as_sent(plane: Plane) -> None:
    texts = {"%d%s%n": "{}{0.__class__}%(x)s", "$HOME": "${x}`id`", "é": "e\u0301", "\U0001f600": "\u202eabc\x1b[0m"}
    made = await plane.create(plane.client(), None, labels=texts, environment=texts, workdir="/%s{}")
    shown = (await plane.client().get(f"{URL}/{made['uuid']}")).json()
    assert shown["labels"] == shown["environment"] == texts
    assert shown["workdir"] == "/%s{}"
    (row,) = (await plane.client().get(URL)).json()["containers"]
    assert row["labels"] == texts


async def test_labels_become_texts_however_many_and_nested(plane: Plane) -> None:
    labels = {f"k{n}": "v" for n in range(10_000)} | {"nested": {"a": [1, {"b": None}]}, "n": None, "t": True, "f": 1.5}
    made = await plane.create(plane.client(), None, labels=labels)
    shown = (await plane.client().get(f"{URL}/{made['uuid']}")).json()["labels"]
    assert len(shown) == 10_004
    assert (shown["nested"], shown["n"], shown["t"], shown["f"]) == ("{'a': [1, {'b': None}]}", "None", "True", "1.5")


async def test_texts_that_are_no_json(plane: Plane) -> None:
    for content in (
        b'\xef\xbb\xbf{"image": "cirros"}',
        '{"image": "cirros"}'.encode("utf-16"),
        '{"image": "é"}'.encode("latin-1"),
        b'{"image": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"image": "cirros", "image": "a b"}',
        b"{'image': 'cirros'}",
        b'{"image": "cirros"} {"image": "cirros"}',
    ):
        answer = await plane.client().post(URL, content=content, headers=JSON)
        assert fault(answer)["status"] == 400, content[:40]
    assert await plane.count(containers) == 0


async def test_identifiers(plane: Plane) -> None:
    member = plane.client()
    made = await plane.create(member, None, name="Zebra-1")
    uuid = made["uuid"]
    decoy = await plane.create(member, None, name=uuid)
    for same in (uuid, uuid.upper(), "Zebra-1", "%5Aebra-1"):
        assert (await member.get(f"{URL}/{same}")).json()["uuid"] == uuid, "a name that looks like a uuid hides nothing"
    assert (await member.get(f"{URL}/{decoy['uuid']}")).json()["name"] == uuid
    for other in (
        uuid.replace("-", ""), f"{{{uuid}}}", f"urn:uuid:{uuid}", "zebra-1", "Zebra-1%20", "Zebra%E2%80%901",
        "Zebra-1%2Fstart", "x" * 5000, "'%20or%201=1--", "%25d%7B%7D",
    ):  # fmt: skip
        answer = await member.get(f"{URL}/{other}")
        assert answer.status_code == 404, other
        assert len(answer.text) < 3000


QUERIES = [
        ("limit=1e3", 400), ("limit=%2B1", 400), ("limit=-1", 400), ("limit=0", 400), (f"limit={'9' * 40}", 400),
        ("limit=%D9%A1", 400), ("limit=1.0", 400), ("limit=true", 400), ("marker=%00", 400), ("marker=..", 404),
        (f"marker={'a' * 5000}", 404), ("sort_key=uuid;drop", 400), ("sort_key=%25d", 400), ("sort_dir=DESC", 400),
        ("memory=1e3", 400), ("memory=-1", 400), ("auto_remove=2", 400), ("name=%25d%7B%7D", 200), ("status='", 200),
        ("%25d=1", 400), ("all_projects=maybe", 400),
]  # fmt: skip


async def test_list_parameters(plane: Plane) -> None:
    for query, wanted in QUERIES:
        answer = await plane.client().get(f"{URL}?{query}")
        assert answer.status_code == wanted, (query, answer.text)
        assert len(answer.text) < 3000


async def test_quotas(plane: Plane) -> None:
    values: list[Any] = [1e30, True, -2, "1e3", 2**63, 1.5, [], {}, "-", "１"]
    for value in values:
        answer = await plane.client("admin").put("/v1/quotas/proj1", content=json.dumps({"cpu": value}), headers=JSON)
        assert fault(answer)["status"] == 400, value
