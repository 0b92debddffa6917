"""Files into and out of a container (§10.5, client-expectations §5), on a node that works."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.api import told
from tests.support.simulated_node import SimulatedCloud, simulated_cloud
from zun.compute import transfers
from zun.control import containers_archives
from zun.domain.errors import EngineError, EngineUnreachable, HostUnreachable

URL = "/v1/containers"


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[SimulatedCloud]:
    async with simulated_cloud(tmp_path, api__max_archive_bytes=8 * 1024 * 1024) as made:
        yield made


@pytest.fixture
async def uuid(cloud: SimulatedCloud) -> str:
    made = await cloud.create()
    await cloud.wait(made, "Running")
    return made


def packed(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as made:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        made.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def content_of(raw: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(raw)) as opened:
        found = opened.extractfile(name)
        assert found is not None
        return found.read()


async def put(cloud: SimulatedCloud, uuid: str, path: str, raw: bytes, **more: Any) -> httpx.Response:
    body = {"data": base64.b64encode(raw).decode()}
    return await cloud.http.post(f"{URL}/{uuid}/put_archive", params={"path": path}, json=body, **more)


async def get(cloud: SimulatedCloud, uuid: str, path: str) -> httpx.Response:
    return await cloud.http.get(f"{URL}/{uuid}/get_archive", params={"path": path})


def open_transfers(cloud: SimulatedCloud) -> int:
    """Files that the node's disk holds without a name."""
    folder = str(cloud.api.folder)
    held = 0
    for one in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(one)
        except OSError:
            continue
        held += target.startswith(folder) and target.endswith("(deleted)")
    return held


async def test_a_file_goes_in_and_comes_out(cloud: SimulatedCloud, uuid: str) -> None:
    answer = await put(cloud, uuid, "/tmp", packed("a.txt", b"hello \xff\x00 world"))
    assert (answer.status_code, answer.json()) == (200, None)
    answer = await get(cloud, uuid, "/tmp/a.txt")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"data", "stat"}
    stat = answer.json()["stat"]
    assert set(stat) == {"name", "size", "mode", "mtime", "linkTarget"}
    assert (stat["name"], stat["size"]) == ("a.txt", 14)
    assert content_of(base64.b64decode(answer.json()["data"], validate=True), "a.txt") == b"hello \xff\x00 world"


@pytest.mark.parametrize("size", [transfers.PIECE - 1024, transfers.PIECE, 3 * transfers.PIECE + 511, 7 * 1024 * 1024])
async def test_large_files_pass_in_pieces(cloud: SimulatedCloud, uuid: str, size: int) -> None:
    content = os.urandom(size)
    assert (await put(cloud, uuid, "/tmp", packed("big", content))).status_code == 200
    answer = await get(cloud, uuid, "/tmp/big")
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert content_of(base64.b64decode(answer.json()["data"], validate=True), "big") == content
    assert open_transfers(cloud) == 0


async def test_raw_text_up_to_1_24(cloud: SimulatedCloud, uuid: str) -> None:
    old = cloud.api.client(("admin",), version="1.24")
    raw = packed("t.txt", "grüße\n".encode()).decode()
    answer = await old.post(f"{URL}/{uuid}/put_archive", params={"path": "/tmp"}, json={"data": raw})
    assert answer.status_code == 200, answer.text
    answer = await old.get(f"{URL}/{uuid}/get_archive", params={"path": "/tmp/t.txt"})
    assert content_of(answer.json()["data"].encode(), "t.txt") == "grüße\n".encode()
    await put(cloud, uuid, "/tmp", packed("b", b"\xff\xfe"))
    answer = await old.get(f"{URL}/{uuid}/get_archive", params={"path": "/tmp/b"})
    assert told(answer)[:2] == (400, "invalid")
    assert "1.25" in told(answer)[2]


async def test_large_text_up_to_1_24(cloud: SimulatedCloud, uuid: str) -> None:
    """Pieces of the bus may split a character."""
    old = cloud.api.client(("admin",), version="1.24")
    text = "€" * 1_000_000
    raw = packed("t", b"x" + text.encode()).decode()
    answer = await old.post(f"{URL}/{uuid}/put_archive", params={"path": "/tmp"}, json={"data": raw})
    assert answer.status_code == 200, answer.text
    answer = await old.get(f"{URL}/{uuid}/get_archive", params={"path": "/tmp/t"})
    assert content_of(answer.json()["data"].encode(), "t").decode() == "x" + text


NO_BASE64 = ["%%%%", "YQ=", "YQ==YQ==", "YWJj\nYWJ", "ÄÄÄÄ", "YWJj" * 600_000 + "YQ==" + "YWJj" * 9]


@pytest.mark.parametrize("data", NO_BASE64, ids=range(len(NO_BASE64)))
async def test_what_is_no_base64_is_400(cloud: SimulatedCloud, uuid: str, data: str) -> None:
    answer = await cloud.http.post(f"{URL}/{uuid}/put_archive", params={"path": "/tmp"}, json={"data": data})
    assert told(answer)[:2] == (400, "base-64-exception")
    assert open_transfers(cloud) == 0


async def test_missing_paths_and_wrong_archives_are_400(cloud: SimulatedCloud, uuid: str) -> None:
    assert told(await get(cloud, uuid, "/nowhere"))[:2] == (400, "invalid")
    assert "/nowhere" in told(await get(cloud, uuid, "/nowhere"))[2]
    raw = packed("a", b"x")
    for path, archive in (("/nowhere", raw), ("/etc/hostname", raw), ("/tmp", b"no archive" * 500)):
        assert told(await put(cloud, uuid, path, archive))[:2] == (400, "invalid"), path
    for wrong in ({}, {"path": ""}, {"path": "/tmp\0"}):
        answer = await cloud.http.get(f"{URL}/{uuid}/get_archive", params=wrong)
        assert answer.status_code == 400
    answer = await cloud.http.post(f"{URL}/{uuid}/put_archive", params={"path": "/tmp"}, json={})
    assert told(answer)[:2] == (400, "schema-validation-error")


async def test_too_large_is_413_either_way_and_leaves_nothing(cloud: SimulatedCloud, uuid: str) -> None:
    big = bytes(8 * 1024 * 1024)
    assert told(await put(cloud, uuid, "/tmp", packed("big", big)))[:2] == (413, "request-too-large")
    assert told(await put(cloud, uuid, "/tmp", packed("big", big * 2)))[:2] == (413, "request-too-large")
    assert (await put(cloud, uuid, "/tmp", packed("small", b""))).status_code == 200
    cloud.runtime.files[uuid]["/tmp/big"] = big
    code, slug, text = told(await get(cloud, uuid, "/tmp/big"))
    assert (code, slug) == (413, "request-too-large")
    assert "max_archive_bytes" in text
    assert open_transfers(cloud) == 0


async def test_only_settled_states(cloud: SimulatedCloud) -> None:
    cloud.runtime.fail_next("start", EngineError("no"))
    uuid = await cloud.create()
    await cloud.wait(uuid, "Error")
    for answer, verb in ((await get(cloud, uuid, "/"), "get"), (await put(cloud, uuid, "/", b""), "put")):
        expected = f"Cannot {verb}_archive container {uuid} in Error state"
        assert told(answer) == (409, "invalid-state-exception", expected)


async def test_faults_of_engine_and_node(cloud: SimulatedCloud, uuid: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = packed("a", b"x")
    for error, status in ((EngineUnreachable("gone"), 503), (EngineError("no space left on device"), 409)):
        for method in ("get_archive", "put_archive"):
            cloud.runtime.fail_next(method, error)
        assert (await get(cloud, uuid, "/etc/hostname")).status_code == status
        assert (await put(cloud, uuid, "/tmp", raw)).status_code == status
    big = packed("big", os.urandom(4 * 1024 * 1024))
    real = containers_archives.ask_node

    async def lost(control: Any, caller: Any, row: Any, method: str, params: Any) -> Any:
        if params.get("offset"):
            raise HostUnreachable("gone")
        return await real(control, caller, row, method, params)

    monkeypatch.setattr(containers_archives, "ask_node", lost)
    assert (await put(cloud, uuid, "/tmp", big)).status_code == 503
    assert "/tmp/big" not in cloud.runtime.files.get(uuid, {})
    assert open_transfers(cloud) == 0


async def test_an_answer_that_breaks_off_is_not_taken_for_whole(
    cloud: SimulatedCloud, uuid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await put(cloud, uuid, "/tmp", packed("big", os.urandom(4 * 1024 * 1024)))).status_code == 200
    real = containers_archives.ask_node

    async def lost(control: Any, caller: Any, row: Any, method: str, params: Any) -> Any:
        if method == "read_transfer":
            raise HostUnreachable("gone")
        return await real(control, caller, row, method, params)

    monkeypatch.setattr(containers_archives, "ask_node", lost)
    try:
        answer = await get(cloud, uuid, "/tmp/big")
    except AssertionError:  # the in-process server's way to say that the answer has no end
        answer = None
    assert answer is None or len(answer.content) < int(answer.headers["content-length"])
    assert open_transfers(cloud) == 0


async def test_many_at_once(cloud: SimulatedCloud, uuid: str) -> None:
    contents = {f"f{index}": os.urandom(2 * 1024 * 1024) for index in range(8)}
    answers = await asyncio.gather(*(put(cloud, uuid, "/tmp", packed(name, raw)) for name, raw in contents.items()))
    assert {answer.status_code for answer in answers} == {200}
    answers = await asyncio.gather(*(get(cloud, uuid, f"/tmp/{name}") for name in contents))
    for (name, raw), answer in zip(contents.items(), answers, strict=True):
        assert content_of(base64.b64decode(answer.json()["data"]), name) == raw
    assert open_transfers(cloud) == 0


async def test_others_containers_are_404(cloud: SimulatedCloud, uuid: str) -> None:
    stranger = cloud.api.client(("member",), project_id="proj2")
    answer = await stranger.get(f"{URL}/{uuid}/get_archive", params={"path": "/etc/hostname"})
    assert told(answer)[:2] == (404, "container-not-found")
