"""Files through the real engine: nothing leads out of a container, and refusals say why without the host's paths."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.runtimes import DockerBench
from zun.domain.errors import PathRefused
from zun.domain.observed import HostMount


def packed(*members: tuple[str, bytes | str]) -> bytes:
    """A tar archive; content that is text is the target of a link."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                made.addfile(member)
            else:
                member.size = len(content)
                made.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


async def whole(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 100_000):
        yield content[start : start + 100_000]


async def fetched(docker: DockerBench, uuid: str, path: str) -> dict[str, bytes]:
    async with docker.runtime.get_archive(uuid, path) as (_, pieces):
        raw = b"".join([piece async for piece in pieces])
    with tarfile.open(fileobj=io.BytesIO(raw)) as opened:
        files = {one.name: opened.extractfile(one) for one in opened if one.isfile()}
        return {name: content.read() for name, content in files.items() if content}


async def test_links_end_within_the_container_when_read(docker: DockerBench, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"of the host")
    uuid = await docker.running()
    links = f"ln -s {tmp_path} /tmp/abs; ln -s ../../../../../../..{tmp_path} /tmp/rel; ln -s / /tmp/root"
    await docker.runtime.execute(uuid, ["sh", "-c", links], 60)
    for path in ("/tmp/abs/secret", "/tmp/rel/secret", f"/tmp/root{secret}", f"/../../..{secret}"):
        with pytest.raises(PathRefused, match="Could not find"):
            await fetched(docker, uuid, path)
    async with docker.runtime.get_archive(uuid, "/tmp/abs") as (stat, _):
        assert (stat.name, stat.link_target) == ("abs", str(tmp_path))
    inside = await fetched(docker, uuid, "/tmp/root/etc/hostname")
    assert inside["hostname"].decode().strip() == docker.inspected(uuid)["Config"]["Hostname"]


async def test_links_and_names_end_within_the_container_when_written(docker: DockerBench, tmp_path: Path) -> None:
    uuid = await docker.running()
    name = f"evil-{uuid4().hex}"
    up = "../" * 30
    for archive in (
        packed(("out", str(tmp_path)), (f"out/{name}", b"x")),
        packed(("up", f"{up}{str(tmp_path)[1:]}"), (f"up/{name}", b"x")),
        packed((f"{up}{str(tmp_path)[1:]}/{name}", b"x")),
        packed((f"{tmp_path}/{name}", b"x")),
    ):
        try:
            await docker.runtime.put_archive(uuid, "/tmp", whole(archive))
        except PathRefused:
            continue
    assert os.listdir(tmp_path) == []
    make = f"mkdir -p {tmp_path}; ln -s {tmp_path} /tmp/folder"
    await docker.runtime.execute(uuid, ["sh", "-c", make], 60)
    await docker.runtime.put_archive(uuid, "/tmp/folder", whole(packed((f"{name}2", b"x"))))
    assert os.listdir(tmp_path) == []
    assert (await docker.runtime.execute(uuid, ["cat", f"{tmp_path}/{name}2"], 60)).output == "x"


async def test_a_read_only_mount_is_refused(docker: DockerBench, tmp_path: Path) -> None:
    uuid = await docker.running(mounts=[HostMount(str(tmp_path), "/ro", read_only=True)])
    with pytest.raises(PathRefused, match="read-only"):
        await docker.runtime.put_archive(uuid, "/ro", whole(packed(("a", b"x"))))
    assert os.listdir(tmp_path) == []


async def test_refusals_do_not_tell_where_the_host_keeps_the_files(docker: DockerBench) -> None:
    uuid = await docker.running()
    await docker.runtime.put_archive(uuid, "/tmp", whole(packed(("a", b"x"))))
    with pytest.raises(PathRefused) as refused:
        await fetched(docker, uuid, "/tmp/a/")
    assert "/tmp/a" in refused.value.text
    assert "overlay" not in refused.value.text


async def test_fifty_mebibytes_there_and_back(docker: DockerBench) -> None:
    uuid, content = await docker.running(), os.urandom(50 * 1024 * 1024)
    await docker.runtime.put_archive(uuid, "/tmp", whole(packed(("big", content))))
    assert (await fetched(docker, uuid, "/tmp/big"))["big"] == content
