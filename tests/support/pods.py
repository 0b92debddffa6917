"""Engines of capsules under one contract: what a test needs beside the port, for containerd and the simulated one."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.support.containerd import PAUSE_IMAGE, Containerd
from tests.support.engine import Engine
from tests.support.engine_proxy import EngineProxy
from tests.support.runtimes import conf_with
from tests.support.wait import eventually
from zun.domain.observed import Observed
from zun.runtime.base import Event
from zun.runtime.cri.adapter import CriPods
from zun.runtime.docker_pods import DockerPods
from zun.runtime.pods import Forgotten, MemberSpec, Pods, Sandbox, SandboxSpec
from zun.runtime.simulated_pods import SimulatedPods

FOREVER = ("sleep", "3600")


class PodsBench:
    """An engine for capsules with an owner of its own; ``image`` is a reference of a busybox that is in it."""

    pods: Pods
    image: str

    def __init__(self) -> None:
        self.owner = f"test-{uuid4().hex[:12]}/host"
        self.image_id = ""

    async def open(self) -> None:
        await self.pods.connect()
        found = await self.pods.image(self.image)
        assert found is not None
        self.image_id = found.image_id

    def sandbox_spec(self, **fields: Any) -> SandboxSpec:
        return replace(SandboxSpec(str(uuid4()), self.owner, "a-capsule"), **fields)

    async def capsule(self, **fields: Any) -> str:
        """The uuid of a capsule with a ready sandbox."""
        spec = self.sandbox_spec(**fields)
        await self.pods.run_sandbox(spec)
        return spec.uuid

    def member_spec(self, capsule: str, *command: str, **fields: Any) -> MemberSpec:
        plain = MemberSpec(str(uuid4()), capsule, self.owner, "a-member", self.image_id, command=command or FOREVER)
        return replace(plain, **fields)

    async def created(self, capsule: str, *command: str, **fields: Any) -> str:
        spec = self.member_spec(capsule, *command, **fields)
        await self.pods.create(spec)
        return spec.uuid

    async def running(self, capsule: str, *command: str, **fields: Any) -> str:
        uuid = await self.created(capsule, *command, **fields)
        await self.pods.start(uuid)
        return uuid

    async def seen(self, uuid: str) -> Observed:
        found = await self.pods.inspect(uuid)
        assert found is not None
        return found

    async def box(self, uuid: str) -> Sandbox:
        found = await self.pods.sandbox(uuid)
        assert found is not None
        return found

    async def reaches(self, uuid: str, state: str, timeout: float = 60.0) -> Observed:
        """Waits until the engine says that the member is in ``state``."""

        async def there() -> Observed | None:
            found = await self.pods.inspect(uuid)
            return found if found is not None and found.state == state else None

        found = await eventually(there, timeout, f"{uuid} is {state}")
        assert found is not None
        return found

    async def log(self, uuid: str, **asked: Any) -> str:
        plain: dict[str, Any] = {"stdout": True, "stderr": True, "timestamps": False, "tail": None, "since": None}
        return await self.pods.logs(uuid, **{**plain, **asked})

    async def logged(self, uuid: str, text: str, **asked: Any) -> str:
        """The log once it has ``text``."""

        async def there() -> str:
            found = await self.log(uuid, **asked)
            return found if text in found else ""

        return await eventually(there, 60, f"the log of {uuid} has {text!r}")

    async def sh(self, uuid: str, script: str, timeout: float = 60.0) -> str:
        """Output of a script in a member, without the last line feed; it has to succeed."""
        done = await self.pods.execute(uuid, ["sh", "-c", script], timeout)
        assert done.exit_code == 0, done.output
        return done.output.rstrip("\n")

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[AsyncIterator[Event]]:
        """Events from here on."""
        events = self.pods.events()
        try:
            yield events
        finally:
            await events.aclose()  # type: ignore[attr-defined]

    async def write(self, uuid: str, text: str, *, stream: str = "stdout") -> None:
        """The member, running, writes lines to its log."""
        raise NotImplementedError

    async def crash(self, uuid: str) -> None:
        """The member's process is killed behind the product's back."""
        raise NotImplementedError

    async def kill_sandbox(self, capsule: str) -> None:
        """The sandbox's process is killed behind the product's back."""
        raise NotImplementedError

    async def cut_events(self) -> None:
        """The engine ends all streams of events; it answers again afterwards."""
        raise NotImplementedError

    async def close(self) -> None:
        await self.pods.close()


class CriBench(PodsBench):
    """containerd."""

    image = PAUSE_IMAGE

    def __init__(self, engine: Containerd, **options: Any) -> None:
        super().__init__()
        self.engine = engine
        self.conf = engine.conf(**options)
        self.pods: CriPods = CriPods(self.conf)
        self._forgotten: set[Forgotten] = set()

    async def empty(self) -> bool:
        """Is nothing left of sandboxes, when what the engine has forgotten is ended as the agent's comparison does?"""
        found = set(await self.pods.forgotten())
        for one in found & self._forgotten:
            await self.pods.end_forgotten(one)
        self._forgotten = found
        return not self.engine.leftovers()

    async def write(self, uuid: str, text: str, *, stream: str = "stdout") -> None:
        number = {"stdout": 1, "stderr": 2}[stream]
        await self.sh(uuid, f"printf '%s' '{text}' > /proc/1/fd/{number}")

    async def crash(self, uuid: str) -> None:
        os.kill(self.engine.tasks()[(await self.seen(uuid)).engine_id], signal.SIGKILL)

    async def kill_sandbox(self, capsule: str) -> None:
        os.kill(self.engine.tasks()[(await self.box(capsule)).sandbox_id], signal.SIGKILL)

    async def cut_events(self) -> None:
        self.engine.kill()
        self.engine.start()

    async def close(self) -> None:
        """Removes what the test made and proves that nothing of it is left."""
        try:
            for box in await self.pods.sandboxes():
                await self.pods.remove_sandbox(box.uuid)
            assert not await self.pods.list()
            await eventually(self.empty, 60, "nothing is left of sandboxes")
        except AssertionError as error:
            known = self.engine.ctr("containers", "ls", check=False)
            raise AssertionError(f"{error}: {self.engine.leftovers()}\n{known}\n{self.engine.log()}") from error
        finally:
            await super().close()


class DockerPodsBench(PodsBench):
    """Docker, with pause containers; its events pass a proxy that can cut them."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        super().__init__()
        self.engine = engine
        self.image = engine.load_busybox()
        self.proxy = EngineProxy(folder / "docker.sock")
        self.conf = conf_with(api_url=f"unix://{self.proxy.path}")
        self.conf.set_override("sandbox_image", engine.load_pause())
        self.pods: DockerPods = DockerPods(self.conf)

    async def open(self) -> None:
        await self.proxy.start()
        await super().open()

    async def write(self, uuid: str, text: str, *, stream: str = "stdout") -> None:
        number = {"stdout": 1, "stderr": 2}[stream]
        await self.sh(uuid, f"printf '%s' '{text}' > /proc/1/fd/{number}")

    async def crash(self, uuid: str) -> None:
        self.engine.post(f"/containers/{(await self.seen(uuid)).engine_id}/kill")

    async def kill_sandbox(self, capsule: str) -> None:
        self.engine.post(f"/containers/{(await self.box(capsule)).sandbox_id}/kill")
        await eventually(lambda: self._is_dead(capsule), 60, "the pause container has ended")

    async def _is_dead(self, capsule: str) -> bool:
        return not (await self.box(capsule)).ready

    async def cut_events(self) -> None:
        assert self.proxy.cut("/events")

    async def close(self) -> None:
        """Removes what the test made and proves that nothing of it is left."""
        try:
            for box in await self.pods.sandboxes():
                if box.owner == self.owner:
                    await self.pods.remove_sandbox(box.uuid)
            assert not self.engine.containers(self.owner.partition("/")[0])
        finally:
            await super().close()
            await self.proxy.stop()


class SimulatedPodsBench(PodsBench):
    """The engine in memory."""

    image = "busybox:latest"

    def __init__(self) -> None:
        super().__init__()
        self.pods: SimulatedPods = SimulatedPods()

    async def open(self) -> None:
        await self.pods.pull(self.image, None, lambda progress: None)
        await super().open()

    async def write(self, uuid: str, text: str, *, stream: str = "stdout") -> None:
        self.pods.write(uuid, text, stream=stream)

    async def crash(self, uuid: str) -> None:
        self.pods.crash(uuid, 137)

    async def kill_sandbox(self, capsule: str) -> None:
        self.pods.kill_sandbox(capsule)

    async def cut_events(self) -> None:
        self.pods.cut_events()
