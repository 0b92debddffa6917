"""Images through containerd from a real registry (S1.20, S1.28, S2.19)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.pods import CriBench
from tests.support.registry import Registry, start_registry
from tests.support.wait import eventually
from zun.domain.errors import ImageFailed, ImagePullFailed
from zun.runtime.base import ImageFacts, PullProgress, RegistryAuth


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    found = start_registry(tmp_path / "registry")
    yield found
    found.stop()


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Registry]:
    found = start_registry(tmp_path / "private", users={"user": "secret:word"})
    yield found
    found.stop()


@pytest.fixture
async def tidy(cri: CriBench) -> AsyncIterator[list[str]]:
    """References that are removed from the engine afterwards."""
    references: list[str] = []
    yield references
    for reference in references:
        await cri.pods.remove_image(reference)


async def pulled(bench: CriBench, reference: str, auth: RegistryAuth | None = None) -> ImageFacts:
    return await bench.pods.pull(reference, auth, lambda progress: None)


async def test_pulled_image_runs(cri: CriBench, registry: Registry, tidy: list[str]) -> None:
    config = {"Entrypoint": ["echo", "from the image"], "Cmd": ["words"], "ExposedPorts": {"80/tcp": {}, "53/udp": {}}}
    reference = registry.push_busybox("some/image", "1", marker=uuid4().bytes, config=config)
    tidy.append(reference)
    assert await cri.pods.image(reference) is None
    made = await pulled(cri, reference)
    assert made.image_id.startswith("sha256:")
    assert (made.entrypoint, made.command) == (("echo", "from the image"), ("words",))
    assert made.repo_digests[0].startswith(f"{registry.address}/some/image@sha256:")
    assert made.size > 100_000
    assert await cri.pods.image(reference) == made
    assert await pulled(cri, reference) == made
    member = await cri.running(await cri.capsule(), image=made.image_id, command=None)
    assert await cri.logged(member, "words") == "from the image words\n"
    found = await cri.reaches(member, "exited")
    assert (found.entrypoint, found.command, found.ports) == (("echo", "from the image"), ("words",), (53, 80))


async def test_image_is_removed_and_runs_on(cri: CriBench, registry: Registry) -> None:
    reference = registry.push_busybox("some/image", "1", marker=uuid4().bytes)
    made = await pulled(cri, reference)
    member = await cri.running(await cri.capsule(), image=made.image_id)
    await cri.pods.remove_image(reference)
    assert await cri.pods.image(reference) is None
    await cri.pods.remove_image(reference)
    assert await cri.sh(member, "echo still") == "still"
    assert (await cri.seen(member)).state == "running"


async def test_credentials_are_needed_and_used(cri: CriBench, private: Registry, tidy: list[str]) -> None:
    reference = private.push_busybox("private/image", "1", marker=uuid4().bytes)
    tidy.append(reference)
    right = RegistryAuth(private.address, "user", "secret:word")
    wrong = RegistryAuth(private.address, "user", "guess")
    for auth in (None, wrong):
        with pytest.raises(ImageFailed, match="refused by the registry") as caught:
            await pulled(cri, reference, auth)
        assert not isinstance(caught.value, ImagePullFailed)
        assert "guess" not in str(caught.value)
        assert not await cri.pods.has_remote_image(reference, auth)
    assert await cri.pods.has_remote_image(reference, right)
    assert (await pulled(cri, reference, right)).size > 0


async def test_image_that_is_nowhere(cri: CriBench, registry: Registry) -> None:
    registry.push_busybox("some/image", "1")
    for absent in (f"{registry.address}/some/image:2", f"{registry.address}/no/image:1"):
        with pytest.raises(ImageFailed, match="not found") as caught:
            await pulled(cri, absent)
        assert not isinstance(caught.value, ImagePullFailed)
        assert not await cri.pods.has_remote_image(absent, None)
    assert await cri.pods.has_remote_image(f"{registry.address}/some/image:1", None)
    with pytest.raises(ImageFailed, match="not a valid reference"):
        await pulled(cri, "some/Image")
    with pytest.raises(ImageFailed, match="not a valid reference"):
        await cri.pods.has_remote_image("some/Image", None)


async def test_registry_that_is_away_can_be_tried_again(cri: CriBench, registry: Registry) -> None:
    reference = registry.push_busybox("some/image", "1")
    registry.stop()
    with pytest.raises(ImagePullFailed, match="connection refused"):
        await pulled(cri, reference)
    with pytest.raises(ImagePullFailed, match=reference):
        await cri.pods.has_remote_image(reference, None)


async def test_engines_own_mirror_is_asked(cri: CriBench, registry: Registry, tidy: list[str]) -> None:
    """What containerd's hosts.toml leads to is where an image is looked for, too."""
    registry.push_busybox("library/mirrored", "1", marker=uuid4().bytes)
    host = f"zun{uuid4().hex[:8]}.invalid"
    folder = cri.engine.root / "certs.d" / host
    folder.mkdir()
    url = f"http://{registry.address}"
    (folder / "hosts.toml").write_text(f'server = "{url}"\n[host."{url}"]\ncapabilities = ["pull", "resolve"]\n')
    reference = f"{host}/library/mirrored:1"
    tidy.append(reference)
    assert await cri.pods.has_remote_image(reference, None)
    assert not await cri.pods.has_remote_image(f"{host}/library/other:1", None)
    assert (await pulled(cri, reference)).size > 0


async def test_progress_of_a_download_is_told(cri: CriBench, registry: Registry, tidy: list[str]) -> None:
    """A layer that cannot be compressed, slowly given: what the engine has of it is told meanwhile."""
    registry.push_busybox("big/image", "1", files={"noise": _noise(24 << 20)})
    slow = await _Slow.of(registry.address)
    tidy.append(f"{slow.address}/big/image:1")
    told: list[PullProgress] = []
    try:
        await cri.pods.pull(f"{slow.address}/big/image:1", None, told.append)
    finally:
        await slow.close()
    moving = [one for one in told if one.phase == "Downloading" and 0 < one.done < one.total]
    assert moving, told
    assert [one.done for one in told] == sorted(one.done for one in told)


async def test_cancelled_pull_ends_in_the_engine(cri: CriBench, registry: Registry, tidy: list[str]) -> None:
    size = 24 << 20
    registry.push_busybox("big/image", "1", files={"noise": _noise(size)})
    slow = await _Slow.of(registry.address)
    tidy.append(f"{slow.address}/big/image:1")
    told = asyncio.Event()
    try:
        pull = asyncio.create_task(cri.pods.pull(f"{slow.address}/big/image:1", None, lambda progress: told.set()))
        async with asyncio.timeout(30):
            await told.wait()
        pull.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pull
        await eventually(lambda: slow.quiet > 1, 20, "the engine reads no more")
        assert slow.passed < size
    finally:
        await slow.close()


def _noise(size: int) -> bytes:
    return random.randbytes(size)


class _Slow:
    """A way to a server that gives 8 MiB a second."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self.passed = 0
        """Bytes that went to the engine."""
        self._last = time.monotonic()
        self._connections: set[asyncio.Task[None]] = set()

    @classmethod
    async def of(cls, target: str) -> _Slow:
        self = cls(target)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    @property
    def quiet(self) -> float:
        """Seconds since the last byte."""
        return time.monotonic() - self._last

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
            up = asyncio.create_task(self._pass(reader, far_writer, 0))
            try:
                await self._pass(far_reader, writer, 1 / 32)
            finally:
                up.cancel()
                await asyncio.gather(up, return_exceptions=True)
        except asyncio.CancelledError:  # by close(); asyncio takes a server's cancelled task for a fault
            return
        finally:
            self._connections.discard(task)
            writer.close()

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, pause: float) -> None:
        try:
            while data := await source.read(256 * 1024):
                sink.write(data)
                await sink.drain()
                if pause:
                    self.passed, self._last = self.passed + len(data), time.monotonic()
                await asyncio.sleep(pause)
        except ConnectionError:
            pass
        finally:
            sink.close()

    async def close(self) -> None:
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
