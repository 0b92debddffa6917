"""Capsules on Docker (``[DEFAULT]/capsule_driver = docker``): a pause container, and members that share its namespaces.

Runs in zun-compute. Names in the engine are not those of containers, so neither side takes the other's for its own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from datetime import datetime
from typing import Any
from weakref import WeakValueDictionary

from zun.domain.errors import (
    EngineConflict,
    EngineError,
    EngineNotFound,
    EngineUnreachable,
    ImageFailed,
    SandboxFailed,
)
from zun.domain.observed import NO_ENGINE_NETWORK, Observed
from zun.runtime import docker_pods_spec as forms
from zun.runtime.base import Event, ExecResult, ImageFacts, PullProgress, RegistryAuth, Stats
from zun.runtime.docker import DockerRuntime
from zun.runtime.docker_errors import start_refusal
from zun.runtime.docker_facts import OWNER_LABEL, UUID_LABEL
from zun.runtime.docker_networks import DockerNetworks
from zun.runtime.docker_spec import interfaces, wanted_networks
from zun.runtime.docker_streams import json_lines
from zun.runtime.fingerprint import spec_hash
from zun.runtime.log_records import Growth, LogRecord
from zun.runtime.pods import Forgotten, MemberSpec, PodsInfo, Sandbox, SandboxSpec
from zun.runtime.sessions import Session

LOG = logging.getLogger(__name__)

_ACTIONS = ("create", "start", "die", "oom", "kill", "stop", "destroy", "update", "pause", "unpause")


class _Members(DockerRuntime):
    """What is the same for members as for containers, under their names."""

    prefix = forms.MEMBER_PREFIX

    @property
    def client(self) -> Any:
        return self._client


class DockerPods:
    """``zun.runtime.pods.Pods`` over the Docker Engine API."""

    name = "docker"

    def __init__(self, conf: Any, *, plugging: float = 0.0) -> None:
        """``plugging``: seconds that a network plug-in may add to a call."""
        self._members = _Members(conf, plugging=plugging)
        self._client = self._members.client
        self._networks = DockerNetworks(self._client)
        self._image: str = conf.sandbox_image
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def connect(self) -> None:
        await self._members.connect()

    async def close(self) -> None:
        await self._members.close()

    async def info(self) -> PodsInfo:
        known = await self._members.info()
        return PodsInfo(self.name, known.version, known.runtimes, known.root_dir)

    # -- sandboxes -------------------------------------------------------------------------------

    async def sandboxes(self) -> Sequence[Sandbox]:
        return [forms.sandbox_of_row(row) for row in await self._rows() if forms.ATTEMPT_LABEL not in row["Labels"]]

    async def sandbox(self, uuid: str) -> Sandbox | None:
        facts = await self._box(uuid)
        return forms.sandbox_of(facts) if facts is not None else None

    async def run_sandbox(self, spec: SandboxSpec) -> Sandbox:
        if any(one.engine_network == NO_ENGINE_NETWORK for one in spec.attachments):
            raise SandboxFailed("the docker capsule driver needs networks that Docker plugs: [network]/driver kuryr")
        async with self._lock(spec.uuid):
            old = await self.sandbox(spec.uuid)
            if old is not None and old.owner != spec.owner:
                raise EngineConflict(f"the sandbox of capsule {spec.uuid} belongs to '{old.owner or 'nobody known'}'")
            if old is not None and old.ready and old.spec_hash == spec_hash(spec):
                return old
            await self._remove(spec.uuid)
            try:
                await self._make(spec)
            except BaseException as error:
                with suppress(EngineError):
                    await asyncio.shield(self._remove(spec.uuid))
                if isinstance(error, EngineUnreachable) or not isinstance(error, EngineError | ImageFailed):
                    raise
                raise SandboxFailed(getattr(error, "text", error.message)) from error
        made = await self.sandbox(spec.uuid)
        if made is None or not made.ready:
            raise SandboxFailed(f"the pause container of image {self._image} ended at once")
        return made

    async def stop_sandbox(self, uuid: str) -> None:
        """Members first: without the sandbox's process their network would stay as long as they do."""
        async with self._lock(uuid):
            names = [f"{forms.MEMBER_PREFIX}{one.uuid}" for one in await self._inside(uuid)]
            await asyncio.gather(*(self._kill(name) for name in names))
            await self._kill(f"{forms.SANDBOX_PREFIX}{uuid}")

    async def remove_sandbox(self, uuid: str) -> None:
        async with self._lock(uuid):
            await self._remove(uuid)

    async def forgotten(self) -> Sequence[Forgotten]:
        """Docker has a record of all that it runs."""
        return []

    async def end_forgotten(self, one: Forgotten) -> bool:
        return False

    # -- members ---------------------------------------------------------------------------------

    async def list(self) -> Sequence[Observed]:
        return [forms.member_of_row(row) for row in await self._rows() if forms.ATTEMPT_LABEL in row["Labels"]]

    async def inspect(self, uuid: str) -> Observed | None:
        facts = await self._facts(f"{forms.MEMBER_PREFIX}{uuid}")
        return forms.member_of(facts) if facts is not None else None

    async def create(self, spec: MemberSpec) -> str:
        """Nothing is made in a sandbox that is being removed: both hold the capsule's lock."""
        async with self._lock(spec.capsule_uuid):
            box = await self._box(spec.capsule_uuid)
            if box is None or not forms.sandbox_of(box).ready:
                raise EngineNotFound(f"No ready sandbox of capsule {spec.capsule_uuid}")
            old = await self.inspect(spec.uuid)
            if old is not None and old.owner != spec.owner:
                raise EngineConflict(f"member {spec.uuid} exists and belongs to '{old.owner or 'nobody known'}'")
            if old is not None and old.spec_hash == spec_hash(spec):
                return old.engine_id
            await self._members.remove(spec.uuid, force=True)
            params = {"name": f"{forms.MEMBER_PREFIX}{spec.uuid}"}
            body = forms.member_body(spec, box)
            made = await self._client.call("POST", "containers/create", params=params, body=body)
            return str(made["Id"])

    async def start(self, uuid: str) -> None:
        found = await self._present(uuid)
        if found.state in ("exited", "dead"):
            raise EngineConflict(f"Member {uuid} has ended")
        try:
            await self._client.call("POST", f"containers/{forms.MEMBER_PREFIX}{uuid}/start")
        except EngineError as error:
            translated = start_refusal(error)
            if translated is error:
                raise
            raise translated from error

    async def stop(self, uuid: str, timeout: int | None) -> None:
        await self._present(uuid)
        await self._members.stop(uuid, timeout)

    async def remove(self, uuid: str, *, force: bool) -> None:
        found = await self.inspect(uuid)
        if found is not None and found.state == "running" and not force:
            raise EngineConflict(f"Member {uuid} is running")
        await self._members.remove(uuid, force=True)

    async def update(self, uuid: str, *, cpu_millicores: int | None, memory_mib: int | None, swap_mib: int) -> None:
        await self._present(uuid)
        await self._members.update(uuid, cpu_millicores=cpu_millicores, memory_mib=memory_mib, swap_mib=swap_mib)

    async def logs(
        self, uuid: str, *, stdout: bool, stderr: bool, timestamps: bool, tail: int | None, since: float | None
    ) -> str:
        """Of the newest attempt."""
        return await self._members.logs(
            uuid, stdout=stdout, stderr=stderr, timestamps=timestamps, tail=tail, since=since
        )

    def log_records(self, uuid: str, last: int | None) -> AsyncGenerator[Sequence[LogRecord], None]:
        """Of the newest attempt."""
        return self._members.log_records(uuid, last)

    def log_growth(self, uuid: str) -> AbstractAsyncContextManager[Growth]:
        return self._members.log_growth(uuid)

    async def execute(self, uuid: str, command: Sequence[str], timeout: float) -> ExecResult:
        return await self._members.execute(uuid, command, timeout)

    async def open_exec(self, uuid: str, command: Sequence[str], *, tty: bool, stdin: bool) -> str:
        return await self._members.open_exec(uuid, command, tty=tty, stdin=stdin)

    def exec_session(
        self, uuid: str, exec_id: str, command: Sequence[str], *, tty: bool, stdin: bool
    ) -> AbstractAsyncContextManager[Session]:
        return self._members.exec_session(uuid, exec_id, command, tty=tty, stdin=stdin)

    async def end_exec(self, uuid: str, exec_id: str, command: Sequence[str], began: datetime) -> None:
        await self._members.end_exec(uuid, exec_id, command, began)

    def attach_session(self, uuid: str, *, stdin: bool) -> AbstractAsyncContextManager[Session]:
        return self._members.attach_session(uuid, stdin=stdin)

    async def resize(self, uuid: str, *, height: int, width: int) -> None:
        await self._members.resize(uuid, height=height, width=width)

    async def stats(self, uuid: str) -> Stats:
        if (await self._present(uuid)).state != "running":
            raise EngineConflict(f"Container {uuid} is not running")
        return await self._members.stats(uuid)

    def events(self) -> AsyncIterator[Event]:
        """From this call on, not from the first step of the iteration."""
        return self._events(time.time())

    # -- images ----------------------------------------------------------------------------------

    async def pull(
        self, reference: str, auth: RegistryAuth | None, progress: Callable[[PullProgress], None]
    ) -> ImageFacts:
        return await self._members.pull(reference, auth, progress)

    async def has_remote_image(self, reference: str, auth: RegistryAuth | None) -> bool:
        return await self._members.has_remote_image(reference, auth)

    async def image(self, reference: str) -> ImageFacts | None:
        return await self._members.image(reference)

    async def remove_image(self, reference: str) -> None:
        await self._members.remove_image(reference)

    # -- within ----------------------------------------------------------------------------------

    def _lock(self, capsule: str) -> asyncio.Lock:
        return self._locks.setdefault(capsule, asyncio.Lock())

    async def _rows(self, capsule: str | None = None) -> Sequence[Mapping[str, Any]]:
        label = forms.CAPSULE_LABEL if capsule is None else f"{forms.CAPSULE_LABEL}={capsule}"
        params = {"all": "1", "filters": json.dumps({"label": [label]})}
        rows: Sequence[Mapping[str, Any]] = await self._client.call("GET", "containers/json", params=params)
        return rows

    async def _inside(self, capsule: str) -> Sequence[Observed]:
        return [forms.member_of_row(row) for row in await self._rows(capsule) if forms.ATTEMPT_LABEL in row["Labels"]]

    async def _facts(self, name: str) -> Mapping[str, Any] | None:
        try:
            facts: Mapping[str, Any] = await self._client.call("GET", f"containers/{name}/json")
        except EngineNotFound:
            return None
        return facts

    async def _box(self, capsule: str) -> Mapping[str, Any] | None:
        return await self._facts(f"{forms.SANDBOX_PREFIX}{capsule}")

    async def _present(self, uuid: str) -> Observed:
        found = await self.inspect(uuid)
        if found is None:
            raise EngineNotFound(f"No such container: {forms.MEMBER_PREFIX}{uuid}")
        return found

    async def _make(self, spec: SandboxSpec) -> None:
        if await self._members.image(self._image) is None:
            await self._members.pull(self._image, None, lambda state: None)
        for network in wanted_networks(spec.attachments):
            await self._networks.ensure(network)
        name = f"{forms.SANDBOX_PREFIX}{spec.uuid}"
        body = forms.sandbox_body(spec, self._image)
        await self._client.call("POST", "containers/create", params={"name": name}, body=body)
        for interface in interfaces(spec.attachments)[1:]:
            await self._networks.connect(name, interface)
        await self._client.call("POST", f"containers/{name}/start", plugs=True)

    async def _kill(self, name: str) -> None:
        """Without grace; not running and not there is success."""
        with suppress(EngineNotFound, EngineConflict):
            await self._client.call("POST", f"containers/{name}/kill", plugs=True)

    async def _remove(self, capsule: str) -> None:
        """Members first, then the pause container, of whatever state."""
        await asyncio.gather(*(self._members.remove(one.uuid, force=True) for one in await self._inside(capsule)))
        path = f"containers/{forms.SANDBOX_PREFIX}{capsule}"
        with suppress(EngineNotFound):
            await self._client.call("DELETE", path, params={"v": "1", "force": "1"}, plugs=True)

    async def _events(self, since: float) -> AsyncIterator[Event]:
        wanted = {"type": ["container"], "event": _ACTIONS, "label": [forms.CAPSULE_LABEL]}
        params = {"since": f"{since:.9f}", "filters": json.dumps(wanted)}
        async with (
            self._client.stream("GET", "events", params=params) as content,
            aclosing(json_lines(content.iter_any())) as lines,
        ):
            async for line in lines:
                attributes = (line.get("Actor") or {}).get("Attributes") or {}
                if UUID_LABEL in attributes:
                    yield Event(attributes[UUID_LABEL], line.get("Action", ""), attributes.get(OWNER_LABEL, ""))
        raise EngineUnreachable(f"{self._client.endpoint} ended the stream of events")
