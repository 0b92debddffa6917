"""The engine itself: away, killed and back, too old, or without CRI."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.support.pods import CriBench
from zun.conf import ConfigError, load
from zun.domain.errors import EngineError, EngineUnreachable
from zun.runtime.cri.adapter import CriPods
from zun.runtime.cri.protocol import METHODS


def pods_at(path: Path) -> CriPods:
    conf = load(files=[])
    conf.set_override("endpoint", f"unix://{path}", group="cri")
    return CriPods(conf)


async def test_engine_that_is_away_is_named(tmp_path: Path) -> None:
    pods = pods_at(tmp_path / "none.sock")
    try:
        for call in (pods.connect(), pods.list(), pods.sandboxes(), pods.inspect("x"), pods.image("x")):
            with pytest.raises(EngineUnreachable, match=f"^CRI internal error: unix://{tmp_path}/none.sock"):
                await call
        with pytest.raises(EngineUnreachable):
            await anext(pods.events())
    finally:
        await pods.close()


def test_endpoint_has_to_be_a_socket_of_this_host(tmp_path: Path) -> None:
    (tmp_path / "zun.conf").write_text("[cri]\nendpoint = tcp://127.0.0.1:1234\n")
    with pytest.raises(ConfigError, match="endpoint"):
        load(files=[str(tmp_path / "zun.conf")])


async def test_killed_engine_is_unreachable_and_right_as_soon_as_it_is_back(cri: CriBench) -> None:
    capsule = await cri.capsule()
    stays = await cri.running(capsule)
    ends = await cri.running(capsule, "sh", "-c", "while [ ! -e /end ]; do sleep 0.05; done; exit 7")
    logs = await cri.running(capsule, "sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done")
    await cri.logged(logs, "5\n")
    pid = cri.engine.tasks()[(await cri.seen(ends)).engine_id]
    await cri.pods.list()
    cri.engine.kill()
    for call in (cri.pods.list(), cri.pods.inspect(stays), cri.pods.create(cri.member_spec(capsule))):
        with pytest.raises(EngineUnreachable):
            await call
    _touch(f"/proc/{pid}/root/end")
    restart = asyncio.create_task(asyncio.to_thread(cri.engine.start))
    try:
        states = await _first_answer(cri)
    finally:
        await restart
    assert {one: states[one] for one in (stays, logs)} == {stays: "running", logs: "running"}
    found = await cri.reaches(ends, "exited")
    assert found.exit_code == 7
    assert (await cri.box(capsule)).ready
    assert await cri.sh(stays, "echo on") == "on"
    await cri.pods.stop(logs, 0)
    lines = (await cri.log(logs)).split()
    assert lines == [str(number + 1) for number in range(len(lines))]


@pytest.mark.parametrize("pause", [number * 0.025 for number in range(10)])
async def test_engine_killed_while_a_capsule_is_made(cri: CriBench, pause: float) -> None:
    """Whatever was half made, the same calls make it whole afterwards, and removal leaves nothing."""
    box = cri.sandbox_spec()
    spec = cri.member_spec(box.uuid)

    async def make() -> None:
        await cri.pods.run_sandbox(box)
        await cri.pods.create(spec)
        await cri.pods.start(spec.uuid)

    making = asyncio.create_task(make())
    await asyncio.sleep(pause)
    cri.engine.kill()
    with contextlib.suppress(EngineUnreachable):
        await making
    await asyncio.to_thread(cri.engine.start)
    await _first_answer(cri)
    await make()
    assert (await cri.seen(spec.uuid)).state == "running"
    assert [one.ready for one in await cri.pods.sandboxes()] == [True]
    await cri.pods.remove_sandbox(box.uuid)
    assert not await cri.pods.sandboxes()


async def test_events_end_with_the_engine(cri: CriBench) -> None:
    async with cri.listening() as events:
        capsule = await cri.capsule()
        assert (await anext(events)).uuid == capsule
        cri.engine.kill()
        try:
            with pytest.raises(EngineUnreachable, match=r"^CRI internal error: "):
                [event async for event in events]
        finally:
            cri.engine.start()


async def test_call_beyond_its_deadline_is_unreachable(cri: CriBench) -> None:
    capsule = await cri.capsule()
    member = await cri.running(capsule)
    cri.pods._client.deadline = 0.5
    engine = cri.engine.process
    engine.suspend()
    try:
        with pytest.raises(EngineUnreachable, match=r"did not answer within 0\.5 seconds"):
            await cri.pods.inspect(member)
    finally:
        engine.resume()
        cri.pods._client.deadline = 60.0
    assert (await cri.seen(member)).state == "running"


@pytest.fixture
async def old_engine(tmp_path: Path) -> AsyncIterator[Path]:
    """A server that knows one method: CRI v1alpha2's Version. No engine so old is to be had."""

    async def version(request: Any, context: Any) -> Any:
        return METHODS["Version"]._answer(runtime_name="containerd", runtime_version="v1.4.13")

    handler = grpc.unary_unary_rpc_method_handler(
        version, METHODS["Version"].request.FromString, lambda answer: answer.SerializeToString()
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("runtime.v1alpha2.RuntimeService", {"Version": handler}),)
    )
    server.add_insecure_port(f"unix://{tmp_path}/old.sock")
    await server.start()
    yield tmp_path / "old.sock"
    await server.stop(None)


async def test_engine_too_old_is_told_what_is_needed(old_engine: Path) -> None:
    pods = pods_at(old_engine)
    try:
        with pytest.raises(EngineError, match=r"containerd v1\.4\.13 at .* is too old.*containerd 1\.6") as caught:
            await pods.connect()
        assert not isinstance(caught.value, EngineUnreachable)
    finally:
        await pods.close()


async def test_engine_without_cri_is_told_what_to_change(tmp_path: Path) -> None:
    server = grpc.aio.server()
    server.add_insecure_port(f"unix://{tmp_path}/bare.sock")
    await server.start()
    pods = pods_at(tmp_path / "bare.sock")
    try:
        with pytest.raises(EngineError, match=r"serves no CRI v1 .*disabled_plugins"):
            await pods.connect()
    finally:
        await pods.close()
        await server.stop(None)


def _touch(path: str) -> None:
    Path(path).touch()


async def _first_answer(bench: CriBench) -> dict[str, str]:
    """Of the engine while it comes back: until then nothing but EngineUnreachable."""
    async with asyncio.timeout(60):
        while True:
            try:
                return {one.uuid: one.state for one in await bench.pods.list()}
            except EngineUnreachable:
                await asyncio.sleep(0.01)
