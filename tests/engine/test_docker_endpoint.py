"""The way to the engine: missing, silent, cut, back again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.engine import SOCKET
from tests.support.engine_proxy import EngineProxy
from tests.support.runtimes import DockerBench, conf_with
from tests.support.wait import eventually
from zun.domain.errors import EngineError, EngineUnreachable, ImagePullFailed
from zun.runtime.base import Event
from zun.runtime.docker import DockerRuntime


@pytest.fixture
async def proxy(tmp_path: Path) -> AsyncIterator[EngineProxy]:
    made = await EngineProxy(tmp_path / "docker.sock", SOCKET).start()
    yield made
    await made.stop()


@pytest.fixture
async def proxied(proxy: EngineProxy) -> AsyncIterator[DockerRuntime]:
    """A runtime that reaches the engine through ``proxy`` and waits 6 seconds for an answer."""
    runtime = DockerRuntime(conf_with(api_url=f"unix://{proxy.path}", default_timeout=6))
    yield runtime
    await runtime.close()


@pytest.mark.parametrize("scheme", ["unix", "tcp"])
async def test_nobody_there_is_unreachable_and_names_where(tmp_path: Path, scheme: str) -> None:
    url = f"unix://{tmp_path}/none.sock" if scheme == "unix" else "tcp://127.0.0.1:1"
    runtime = DockerRuntime(conf_with(api_url=url))
    for call in (runtime.connect, runtime.list, lambda: runtime.inspect(str(uuid4()))):
        with pytest.raises(EngineUnreachable, match=re.escape(url)) as caught:
            await call()
        assert caught.value.retryable
    await runtime.close()


async def test_wrong_url_is_told() -> None:
    runtime = DockerRuntime(conf_with(api_url="ftp://engine"))
    with pytest.raises(EngineError, match="api_url"):
        await runtime.connect()
    await runtime.close()


async def test_version_that_is_not_spoken_is_told(docker: DockerBench) -> None:
    runtime = DockerRuntime(conf_with(api_url=docker.engine.url, docker_remote_api_version="1.99"))
    with pytest.raises(EngineError, match=r"1\.99"):
        await runtime.connect()
    await runtime.close()


async def test_pinned_version_is_spoken(proxy: EngineProxy) -> None:
    runtime = DockerRuntime(conf_with(api_url=f"unix://{proxy.path}", docker_remote_api_version="1.40"))
    await runtime.list()
    assert any(call.path.startswith("/v1.40/containers") for call in proxy.calls)
    await runtime.close()


async def test_engine_that_comes_back_is_found_again(proxy: EngineProxy, proxied: DockerRuntime) -> None:
    await proxied.info()
    proxy.mode = "refuse"
    with pytest.raises(EngineUnreachable):
        await proxied.info()
    await proxy.stop()
    with pytest.raises(EngineUnreachable, match=re.escape(str(proxy.path))):
        await proxied.info()
    proxy.mode = "pass"
    await proxy.start()
    assert (await proxied.info()).cpus > 0


async def test_hung_container_holds_up_nobody(docker: DockerBench, proxy: EngineProxy, proxied: DockerRuntime) -> None:
    hung, well = await docker.running(), await docker.running()
    proxy.hang_on = re.compile(f"zun-{hung}/")
    loop = asyncio.get_running_loop()
    calls = [asyncio.create_task(proxied.inspect(hung)) for _ in range(120)]
    begun = loop.time()
    found = await proxied.inspect(well)
    assert found is not None
    assert loop.time() - begun < 5
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(result) for result in results} == {EngineUnreachable}
    assert "within 6 seconds" in str(results[0])


async def test_cut_stream_of_events_ends_unreachable(
    docker: DockerBench, proxy: EngineProxy, proxied: DockerRuntime
) -> None:
    told: list[Event] = []

    async def listen() -> None:
        async for event in proxied.events():
            told.append(event)

    listener = asyncio.create_task(listen())
    uuid = await docker.running()
    started = Event(uuid, "start", docker.owner)
    await eventually(lambda: started in told, 30, "the start is told")
    assert proxy.cut("/events") == 1
    with pytest.raises(EngineUnreachable):
        await asyncio.wait_for(listener, 60)


async def test_pull_that_breaks_off_can_be_tried_again(proxy: EngineProxy, proxied: DockerRuntime) -> None:
    writers: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda reader, writer: writers.append(writer), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    pull = asyncio.create_task(proxied.pull(f"127.0.0.1:{port}/a/b:1", None, lambda state: None))
    await eventually(lambda: proxy.cut("/images/create"), 30, "the pull is under way")
    with pytest.raises((ImagePullFailed, EngineUnreachable)) as caught:
        await asyncio.wait_for(pull, 60)
    assert caught.value.retryable
    silent.close()
    for writer in writers:
        writer.close()
        await writer.wait_closed()
