"""A network plug-in that hangs: RunPodSandbox outlasts what its caller waits, and leaves nothing (S2.8, S2.11)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.containerd import PLUGINS, Containerd
from tests.support.pods import CriBench
from tests.support.wait import eventually
from zun.domain.errors import EngineUnreachable
from zun.runtime.cri import sandboxes
from zun.runtime.cri.adapter import CriPods
from zun.runtime.pods import SandboxSpec

_HANGS = """\
#!/bin/sh
# The reference plug-in, whose ADD waits as long as there is a file.
if [ "$CNI_COMMAND" = ADD ]; then
    while [ -e {gate} ]; do sleep 0.05; done
fi
exec {plugins}/ptp
"""


class Gate:
    """While it is shut the plug-in hangs."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def shut(self) -> None:
        self._path.touch()

    def open(self) -> None:
        self._path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Gate]]:
    folder = tmp_path_factory.mktemp("plugins")
    for one in PLUGINS.iterdir():
        (folder / one.name).symlink_to(one)
    (folder / "ptp").unlink()
    gate = folder / "shut"
    (folder / "ptp").write_text(_HANGS.format(gate=gate, plugins=PLUGINS))
    (folder / "ptp").chmod(0o755)
    yield folder, Gate(gate)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def hanging(plugins: tuple[Path, Gate]) -> Iterator[Containerd]:
    engine = Containerd(plugins=plugins[0])
    try:
        yield engine.start()
    finally:
        plugins[1].open()
        engine.close()


class Impatient(CriBench):
    """Waits for five seconds for a sandbox."""

    def __init__(self, engine: Containerd) -> None:
        super().__init__(engine, request_timeout=4)
        self.conf.set_override("vif_active_timeout", 1, group="cni_daemon")
        self.pods = CriPods(self.conf)


@pytest.fixture
async def cri(hanging: Containerd, plugins: tuple[Path, Gate]) -> AsyncIterator[CriBench]:
    bench = Impatient(hanging)
    try:
        await bench.open()
        yield bench
    finally:
        plugins[1].open()
        await bench.close()


@pytest.fixture
def gate(plugins: tuple[Path, Gate]) -> Gate:
    return plugins[1]


async def nothing_left(cri: CriBench) -> None:
    await eventually(cri.empty, 60, f"nothing is left of the sandbox, {cri.engine.leftovers()}")
    assert not await cri.pods.sandboxes()


async def test_one_that_comes_too_late_is_removed(cri: CriBench, gate: Gate) -> None:
    gate.shut()
    spec = cri.sandbox_spec()
    with pytest.raises(EngineUnreachable, match="did not answer within 5 seconds"):
        await cri.pods.run_sandbox(spec)
    gate.open()
    assert await cri.pods.sandbox(spec.uuid) is None, "told once what was called off is undone"
    await nothing_left(cri)
    assert await _made(cri, spec)


async def test_another_try_waits_for_its_turn_and_succeeds(cri: CriBench, gate: Gate) -> None:
    gate.shut()
    spec = cri.sandbox_spec()
    for _ in range(2):  # the second one's time goes by while it waits for the first
        with pytest.raises(EngineUnreachable):
            await cri.pods.run_sandbox(spec)
    gate.open()
    await eventually(lambda: _made(cri, spec), 60, "it is made after all")
    assert [one.uuid for one in await cri.pods.sandboxes()] == [spec.uuid]
    await cri.running(spec.uuid)


async def test_a_delete_waits_for_it_and_finds_nothing(cri: CriBench, gate: Gate) -> None:
    gate.shut()
    spec = cri.sandbox_spec()
    with pytest.raises(EngineUnreachable):
        await cri.pods.run_sandbox(spec)
    removing = asyncio.create_task(cri.pods.remove_sandbox(spec.uuid))
    gate.open()
    await removing
    await nothing_left(cri)


async def test_one_that_hangs_for_too_long_is_stopped_by_its_engine(
    cri: CriBench, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandboxes, "_LATE_SECONDS", 2.0)
    gate.shut()
    spec = cri.sandbox_spec()
    with pytest.raises(EngineUnreachable):
        await cri.pods.run_sandbox(spec)
    async with asyncio.timeout(60):
        assert await cri.pods.sandbox(spec.uuid) is None
    await nothing_left(cri)
    gate.open()
    assert await _made(cri, spec)


async def _made(cri: CriBench, spec: SandboxSpec) -> bool:
    """False while what was called off is not undone yet."""
    try:
        return (await cri.pods.run_sandbox(spec)).ready
    except EngineUnreachable:
        return False
