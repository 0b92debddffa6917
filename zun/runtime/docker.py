"""The Docker Engine as a runtime. Runs in zun-compute; the node's agent is its only caller.

Pure parts are in the ``docker_*`` modules beside it. Every call has a deadline of its own, so one hung container
holds up nobody; connections are made when needed, so a restarted engine is simply found again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from datetime import datetime
from pathlib import Path
from typing import Any

from zun.domain.errors import EngineConflict, EngineError, EngineNotFound, EngineUnreachable, ImagePullFailed
from zun.domain.observed import Attachment, EngineNetwork, EngineSpec, Observed
from zun.runtime import (
    docker_exec,
    docker_facts,
    docker_images,
    docker_logs,
    docker_paths,
    docker_pull,
    docker_sessions,
    docker_spec,
)
from zun.runtime.base import EngineInfo, Event, ExecResult, ImageFacts, PathStat, PullProgress, RegistryAuth, Stats
from zun.runtime.docker_client import DockerClient, segment
from zun.runtime.docker_errors import start_refusal
from zun.runtime.docker_namespaces import DockerNamespaces, Listener, open_namespace
from zun.runtime.docker_networks import DockerNetworks
from zun.runtime.docker_streams import json_lines
from zun.runtime.fingerprint import spec_hash
from zun.runtime.log_records import Growth, LogRecord
from zun.runtime.sessions import Session

LOG = logging.getLogger(__name__)

_ACTIONS = (
    *("create", "start", "die", "oom", "pause", "unpause", "kill", "stop", "restart"),
    *("destroy", "rename", "update", "health_status"),
)
"""What changes a container; health checks and commands make many other events."""

_CLOCK_SLACK = 5.0
"""How far the clock of an engine on another host may be off, seconds."""


class DockerRuntime:
    """``zun.runtime.base.Runtime`` over the Docker Engine API."""

    name = "docker"
    prefix = "zun-"
    """What the engine's names begin with; the container's uuid follows."""

    def __init__(self, conf: Any, *, plugging: float = 0.0) -> None:
        """``plugging``: seconds that a network plug-in may add to a call; it may serve one container at a time."""
        self._client = DockerClient(conf, plugging=plugging)
        self._networks = DockerNetworks(self._client)
        self._namespaces = DockerNamespaces()

    async def connect(self) -> None:
        await self._client.connect()

    async def close(self) -> None:
        await self._namespaces.close()
        await self._client.close()

    # -- facts -----------------------------------------------------------------------------------

    async def info(self) -> EngineInfo:
        facts = await self._client.call("GET", "info")
        mounts = await asyncio.to_thread(_mountinfo) if self._client.local else None
        return docker_facts.engine_info(facts, quota=docker_facts.disk_quota(facts, mounts))

    async def list(self) -> Sequence[Observed]:
        params = {"all": "1", "filters": json.dumps({"name": ["^/?zun-"]})}
        rows = await self._client.call("GET", "containers/json", params=params)
        for uuid, engine_id in docker_facts.without_networks(rows):
            self._namespaces.made(uuid, engine_id)
        return [found for found in map(docker_facts.observed_from_list, rows) if found is not None]

    async def inspect(self, uuid: str) -> Observed | None:
        facts = await self._facts(uuid)
        return docker_facts.observed_from_inspect(uuid, facts) if facts is not None else None

    async def stats(self, uuid: str) -> Stats:
        # Docker takes two samples a second apart; a single one would have no CPU figure.
        params = {"stream": "false", "one-shot": "false"}
        sample = await self._client.call("GET", f"containers/{self._name(uuid)}/stats", params=params, empty=True)
        found = docker_facts.stats(sample or {})  # empty of one that is removed between the samples
        if found is None:
            raise EngineConflict(f"Container {uuid} is not running")
        return found

    async def top(self, uuid: str, ps_args: str | None) -> Mapping[str, Any]:
        params = {"ps_args": ps_args} if ps_args else {}
        found = await self._client.call("GET", f"containers/{self._name(uuid)}/top", params=params)
        return {"Titles": found["Titles"], "Processes": found["Processes"] or []}

    async def logs(
        self, uuid: str, *, stdout: bool, stderr: bool, timestamps: bool, tail: int | None, since: float | None
    ) -> str:
        """Both streams in the order they were written; at most the newest 1 MiB."""
        tty = await self._has_terminal(uuid)
        asked: Any = {"stdout": stdout, "stderr": stderr, "timestamps": timestamps, "tail": tail, "since": since}
        return await docker_logs.text(self._client, self._name(uuid), tty=tty, **asked)

    async def log_records(self, uuid: str, last: int | None) -> AsyncGenerator[Sequence[LogRecord], None]:
        tty = await self._has_terminal(uuid)
        async with aclosing(docker_logs.records(self._client, self._name(uuid), last, tty=tty)) as batches:
            async for batch in batches:
                yield batch

    def log_growth(self, uuid: str) -> AbstractAsyncContextManager[Growth]:
        return docker_logs.growth(self._client, self._name(uuid))

    def events(self) -> AsyncIterator[Event]:
        """From this call on, not from the first step of the iteration."""
        since = time.time() - (0.0 if self._client.local else _CLOCK_SLACK)
        return self._events(since)

    async def namespace(self, uuid: str) -> int | None:
        facts = await self._facts(uuid)
        pid = ((facts or {}).get("State") or {}).get("Pid")
        return open_namespace(int(pid)) if pid else None

    async def follow_namespaces(self, listener: Listener) -> None:
        if not self._client.local:
            raise EngineError(f"interfaces can be plugged only beside the engine, which is at {self._client.endpoint}")
        self._namespaces.begin(listener)
        await self.list()

    # -- life ------------------------------------------------------------------------------------

    async def create(self, spec: EngineSpec) -> str:
        """As the port says; another owner's container of that name is an EngineConflict and is not touched."""
        engine_id = await self._create_on_networks(spec)
        if not spec.attachments:
            self._namespaces.made(spec.uuid, engine_id)
        return engine_id

    async def _create_on_networks(self, spec: EngineSpec) -> str:
        try:
            return await self._create(spec)
        except EngineNotFound as error:
            # A network can go between its check and the container's creation: once more, from the start.
            if not spec.attachments or "network" not in error.text.lower():
                raise
            LOG.info("action=create container=%s result=retry reason=network_gone", spec.uuid)
            return await self._create(spec)

    async def start(self, uuid: str) -> None:
        await self._begin(uuid, "start")

    async def stop(self, uuid: str, timeout: int | None) -> None:
        if self._namespaces.holding(uuid):
            timeout = 0  # it has not begun, so there is nothing to end well; and a signal now would be lost
        extra = docker_spec.stop_seconds(timeout)
        await self._post(uuid, "stop", docker_spec.stop_query(timeout), extra=extra, plugs=True)

    async def reboot(self, uuid: str, timeout: int | None) -> None:
        """Raises StartFailed as ``start`` does."""
        extra = docker_spec.stop_seconds(timeout)
        await self._begin(uuid, "restart", docker_spec.stop_query(timeout), extra=extra)

    async def kill(self, uuid: str, signal: str | None) -> None:
        await self._post(uuid, "kill", {"signal": signal} if signal else {})

    async def pause(self, uuid: str) -> None:
        try:
            await self._post(uuid, "pause")
        except EngineConflict as error:
            if "already paused" not in error.text.lower():
                raise

    async def unpause(self, uuid: str) -> None:
        try:
            await self._post(uuid, "unpause")
        except EngineConflict as error:
            if "not paused" not in error.text.lower():
                raise

    async def remove(self, uuid: str, *, force: bool) -> None:
        self._namespaces.removed(uuid)
        params = {"v": "1", "force": str(int(force))}
        pause = 0.02
        limit = self._client.deadline + self._client.plugging
        end = time.monotonic() + limit
        while True:
            try:
                await self._client.call("DELETE", f"containers/{self._name(uuid)}", params=params, plugs=True)
                return
            except EngineNotFound:
                return
            except EngineConflict as error:
                if "already in progress" not in error.text.lower():
                    raise
                if time.monotonic() >= end:
                    text = f"removal of {self._name(uuid)} did not end within {limit:g} seconds"
                    raise EngineUnreachable(text) from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)

    async def update(self, uuid: str, *, cpu_millicores: int | None, memory_mib: int | None, swap_mib: int) -> None:
        """New limits. Memory and swap are always sent together, so that neither crosses the other on the way."""
        body: dict[str, Any] = {}
        if cpu_millicores is not None:
            body |= docker_spec.cpu_limits(cpu_millicores)
        if memory_mib is not None:
            if not memory_mib:
                raise EngineConflict("a memory limit cannot be lifted from an existing container")
            body |= docker_spec.memory_limits(memory_mib, swap_mib)
        if body:
            await self._client.call("POST", f"containers/{self._name(uuid)}/update", body=body)

    async def execute(self, uuid: str, command: Sequence[str], timeout: float) -> ExecResult:
        return await docker_exec.execute(self._client, self._name(uuid), command, timeout)

    async def open_exec(self, uuid: str, command: Sequence[str], *, tty: bool, stdin: bool) -> str:
        return await docker_exec.prepare(self._client, self._name(uuid), command, tty=tty, stdin=stdin)

    def exec_session(
        self, uuid: str, exec_id: str, command: Sequence[str], *, tty: bool, stdin: bool
    ) -> AbstractAsyncContextManager[Session]:
        return docker_sessions.run(self._client, exec_id, tty=tty)

    async def end_exec(self, uuid: str, exec_id: str, command: Sequence[str], began: datetime) -> None:
        await docker_exec.end_left(self._client, exec_id)

    def attach_session(self, uuid: str, *, stdin: bool) -> AbstractAsyncContextManager[Session]:
        return docker_sessions.attach(self._client, self._name(uuid), stdin=stdin)

    def get_archive(self, uuid: str, path: str) -> AbstractAsyncContextManager[tuple[PathStat, AsyncIterator[bytes]]]:
        return docker_paths.read(self._client, self._name(uuid), path)

    async def put_archive(self, uuid: str, path: str, archive: AsyncIterator[bytes]) -> None:
        await docker_paths.write(self._client, self._name(uuid), path, archive)

    async def resize(self, uuid: str, *, height: int, width: int) -> None:
        await self._post(uuid, "resize", {"h": str(height), "w": str(width)})

    # -- images and networks ---------------------------------------------------------------------

    async def pull(
        self, reference: str, auth: RegistryAuth | None, progress: Callable[[PullProgress], None]
    ) -> ImageFacts:
        """``progress`` hears each advance of any layer, and nothing while the engine only waits or retries."""
        await docker_pull.pull(self._client, reference, auth, progress)
        return await self._known(reference, "the pull had ended")

    async def has_remote_image(self, reference: str, auth: RegistryAuth | None) -> bool:
        """Asks the registry for the image's manifest, through the engine."""
        return await docker_pull.has_remote_image(self._client, reference, auth)

    async def image(self, reference: str) -> ImageFacts | None:
        try:
            return docker_facts.image_facts(await self._client.call("GET", f"images/{segment(reference)}/json"))
        except EngineNotFound:
            return None

    async def images_of(self, domain: str) -> Sequence[str]:
        return await docker_images.names_of(self._client, domain)

    async def search_images(self, term: str) -> Sequence[Mapping[str, Any]]:
        return await docker_images.search(self._client, term)

    async def commit(self, uuid: str, reference: str) -> ImageFacts:
        await docker_images.commit(self._client, self._name(uuid), reference)
        return await self._known(reference, "it had been committed")

    def export_image(self, reference: str, renamed: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return docker_images.saved(self._client, reference, renamed)

    async def load_image(
        self, reference: str, archive: AsyncIterable[bytes], progress: Callable[[PullProgress], None]
    ) -> ImageFacts:
        await docker_images.load(self._client, reference, archive, progress)
        return await self._known(reference, "it had been loaded")

    async def images_in_use(self) -> frozenset[str]:
        return await docker_images.in_use(self._client)

    async def remove_image(self, reference: str) -> None:
        try:
            await self._client.call("DELETE", f"images/{segment(reference)}")
        except EngineNotFound:
            return

    async def ensure_network(self, network: EngineNetwork) -> None:
        await self._networks.ensure(docker_spec.wanted(network))

    async def remove_network(self, name: str) -> None:
        await self._networks.remove(name)

    async def connect_network(self, uuid: str, attachments: Sequence[Attachment]) -> None:
        engine_id, joined = await self._joined(uuid)
        await self._networks.join(engine_id, joined, attachments)

    async def disconnect_network(self, uuid: str, name: str) -> None:
        engine_id, joined = await self._joined(uuid)
        await self._networks.leave(engine_id, joined, name)

    async def list_networks(self, prefix: str) -> Sequence[str]:
        return await self._networks.names(prefix)

    # -- within ----------------------------------------------------------------------------------

    def _name(self, uuid: str) -> str:
        return f"{self.prefix}{uuid}"

    async def _known(self, reference: str, after: str) -> ImageFacts:
        found = await self.image(reference)
        if found is None:
            raise ImagePullFailed(f"Error on pulling image: {reference}: it was gone when {after}")
        return found

    async def _has_terminal(self, uuid: str) -> bool:
        facts = await self._facts(uuid)
        if facts is None:
            raise EngineNotFound(f"No such container: {self._name(uuid)}")
        return bool(facts["Config"]["Tty"])

    async def _facts(self, uuid: str) -> Mapping[str, Any] | None:
        try:
            facts: Mapping[str, Any] = await self._client.call("GET", f"containers/{self._name(uuid)}/json")
        except EngineNotFound:
            return None
        return facts

    async def _joined(self, uuid: str) -> tuple[str, Collection[str]]:
        """The engine's id, and the networks the container is on. Raises EngineNotFound."""
        facts = await self._facts(uuid)
        if facts is None:
            raise EngineNotFound(f"No such container: {self._name(uuid)}")
        return str(facts["Id"]), docker_facts.joined(facts)

    async def _post(
        self,
        uuid: str,
        verb: str,
        params: Mapping[str, str] | None = None,
        *,
        extra: float = 0.0,
        plugs: bool = False,
    ) -> None:
        path = f"containers/{self._name(uuid)}/{verb}"
        await self._client.call("POST", path, params=params, extra=extra, plugs=plugs)

    async def _begin(
        self, uuid: str, verb: str, params: Mapping[str, str] | None = None, *, extra: float = 0.0
    ) -> None:
        self._namespaces.starting(uuid)
        try:
            try:
                await self._post(uuid, verb, params, extra=extra, plugs=True)
            except EngineError as error:
                if not await self._networks.restore(error.text):
                    raise
                await self._post(uuid, verb, params, extra=extra, plugs=True)
        except EngineError as error:
            translated = start_refusal(error)
            if translated is error:
                raise
            raise translated from error

    async def _create(self, spec: EngineSpec) -> str:
        for network in docker_spec.wanted_networks(spec.attachments):
            await self._networks.ensure(network)
        interfaces = docker_spec.interfaces(spec.attachments)
        engine_id = await self._make(spec)
        if engine_id is None:
            facts = await self._facts(spec.uuid)
            if facts is not None and self._is_it(spec, facts):
                joined = (facts.get("NetworkSettings") or {}).get("Networks") or {}
                for interface in interfaces:
                    if interface.network not in joined:
                        await self._networks.connect(facts["Id"], interface)
                return str(facts["Id"])
            await self.remove(spec.uuid, force=True)
            engine_id = await self._make(spec)
            if engine_id is None:
                raise EngineConflict(f"the name {spec.engine_name} was taken again while its container was replaced")
        for interface in interfaces[1:]:
            await self._networks.connect(engine_id, interface)
        return engine_id

    async def _make(self, spec: EngineSpec) -> str | None:
        """The new container's id; None when the name is taken."""
        params, body = {"name": spec.engine_name}, docker_spec.create_body(spec)
        try:
            made = await self._client.call("POST", "containers/create", params=params, body=body)
        except EngineConflict as error:
            if "in use by container" not in error.text:
                raise
            return None
        for warning in made.get("Warnings") or ():
            LOG.info("action=create container=%s warning=%s", spec.uuid, warning)
        return str(made["Id"])

    def _is_it(self, spec: EngineSpec, facts: Mapping[str, Any]) -> bool:
        """Is the existing container the wished one? Raises EngineConflict when it is somebody else's."""
        found = docker_facts.observed_from_inspect(spec.uuid, facts)
        if found.owner != spec.owner:
            raise EngineConflict(f"{spec.engine_name} exists and belongs to '{found.owner or 'nobody known'}'")
        return found.spec_hash == spec_hash(spec) and found.state not in ("dead", "removing")

    async def _events(self, since: float) -> AsyncIterator[Event]:
        params = {"since": f"{since:.9f}", "filters": json.dumps({"type": ["container"], "event": _ACTIONS})}
        async with (
            self._client.stream("GET", "events", params=params) as content,
            aclosing(json_lines(content.iter_any())) as lines,
        ):
            async for line in lines:
                attributes = (line.get("Actor") or {}).get("Attributes") or {}
                uuid = docker_facts.uuid_of(attributes.get("name", ""))
                if uuid is not None:
                    yield Event(uuid, line.get("Action", ""), attributes.get(docker_facts.OWNER_LABEL, ""))
        raise EngineUnreachable(f"{self._client.endpoint} ended the stream of events")


def _mountinfo() -> str | None:
    try:
        return Path("/proc/self/mountinfo").read_text()
    except OSError:
        return None
