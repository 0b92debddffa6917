"""The Docker Engine as a runtime. Runs in zun-compute; the node's agent is its only caller.

Pure parts are in the ``docker_*`` modules beside it. Every call has a deadline of its own, so one hung container
holds up nobody; connections are made when needed, so a restarted engine is simply found again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from zun.domain.errors import EngineConflict, EngineError, EngineNotFound, EngineUnreachable, ImagePullFailed
from zun.domain.observed import EngineNetwork, EngineSpec, Observed
from zun.runtime import docker_exec, docker_facts, docker_pull, docker_spec
from zun.runtime.base import EngineInfo, Event, ExecResult, ImageFacts, PullProgress, RegistryAuth, Stats
from zun.runtime.docker_client import DockerClient, segment
from zun.runtime.docker_errors import start_refusal
from zun.runtime.docker_networks import DockerNetworks
from zun.runtime.docker_streams import KEPT, Tail, collect, json_lines
from zun.runtime.fingerprint import spec_hash

LOG = logging.getLogger(__name__)

_GRACE = 10
"""Docker's seconds between TERM and KILL when a request names none."""

_ACTIONS = (
    *("create", "start", "die", "oom", "pause", "unpause", "kill", "stop", "restart"),
    *("destroy", "rename", "update", "health_status"),
)
"""What changes a container; health checks and commands make many other events."""

_CLOCK_SLACK = 5.0
"""How far the clock of an engine on another host may be off, seconds."""


def _name(uuid: str) -> str:
    return f"zun-{uuid}"


class DockerRuntime:
    """``zun.runtime.base.Runtime`` over the Docker Engine API."""

    name = "docker"

    def __init__(self, conf: Any) -> None:
        self._client = DockerClient(conf)
        self._networks = DockerNetworks(self._client)

    async def connect(self) -> None:
        await self._client.connect()

    async def close(self) -> None:
        await self._client.close()

    # -- facts -----------------------------------------------------------------------------------

    async def info(self) -> EngineInfo:
        facts = await self._client.call("GET", "info")
        mounts = await asyncio.to_thread(_mountinfo) if self._client.local else None
        return docker_facts.engine_info(facts, quota=docker_facts.disk_quota(facts, mounts))

    async def list(self) -> Sequence[Observed]:
        params = {"all": "1", "filters": json.dumps({"name": ["^/?zun-"]})}
        rows = await self._client.call("GET", "containers/json", params=params)
        return [found for found in map(docker_facts.observed_from_list, rows) if found is not None]

    async def inspect(self, uuid: str) -> Observed | None:
        facts = await self._facts(uuid)
        return docker_facts.observed_from_inspect(uuid, facts) if facts is not None else None

    async def stats(self, uuid: str) -> Stats:
        # Docker takes two samples a second apart; a single one would have no CPU figure.
        params = {"stream": "false", "one-shot": "false"}
        found = docker_facts.stats(await self._client.call("GET", f"containers/{_name(uuid)}/stats", params=params))
        if found is None:
            raise EngineConflict(f"Container {uuid} is not running")
        return found

    async def top(self, uuid: str, ps_args: str | None) -> Mapping[str, Any]:
        params = {"ps_args": ps_args} if ps_args else {}
        found = await self._client.call("GET", f"containers/{_name(uuid)}/top", params=params)
        return {"Titles": found["Titles"], "Processes": found["Processes"] or []}

    async def logs(
        self, uuid: str, *, stdout: bool, stderr: bool, timestamps: bool, tail: int | None, since: float | None
    ) -> str:
        """Both streams in the order they were written; at most the newest 1 MiB."""
        facts = await self._facts(uuid)
        if facts is None:
            raise EngineNotFound(f"No such container: {_name(uuid)}")
        if not (stdout or stderr):
            return ""
        params = {"stdout": str(int(stdout)), "stderr": str(int(stderr)), "timestamps": str(int(timestamps))}
        # A line has a byte at least, so more lines than bytes kept need not be read.
        params["tail"] = str(max(0, min(tail, KEPT)) if tail is not None else KEPT)
        if since is not None:
            params["since"] = f"{since:.9f}"
        kept, framed, limit = Tail(), not facts["Config"]["Tty"], self._client.deadline
        try:
            async with (
                asyncio.timeout(limit),
                self._client.stream("GET", f"containers/{_name(uuid)}/logs", params=params) as content,
            ):
                await collect(content.iter_any(), kept, framed=framed)
        except TimeoutError as error:
            raise EngineUnreachable(f"{self._client.endpoint} gave no log within {limit:g} seconds") from error
        return kept.text()

    def events(self) -> AsyncIterator[Event]:
        """From this call on, not from the first step of the iteration."""
        since = time.time() - (0.0 if self._client.local else _CLOCK_SLACK)
        return self._events(since)

    # -- life ------------------------------------------------------------------------------------

    async def create(self, spec: EngineSpec) -> str:
        """As the port says; another owner's container of that name is an EngineConflict and is not touched."""
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
        await self._post(uuid, "stop", _seconds(timeout), extra=_wait(timeout))

    async def reboot(self, uuid: str, timeout: int | None) -> None:
        """Raises StartFailed as ``start`` does."""
        await self._begin(uuid, "restart", _seconds(timeout), extra=_wait(timeout))

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
        params = {"v": "1", "force": str(int(force))}
        pause = 0.02
        limit = self._client.deadline
        try:
            async with asyncio.timeout(limit):
                while True:
                    try:
                        await self._client.call("DELETE", f"containers/{_name(uuid)}", params=params)
                        return
                    except EngineNotFound:
                        return
                    except EngineConflict as error:
                        if "already in progress" not in error.text.lower():
                            raise
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, 1.0)
        except TimeoutError as error:
            raise EngineUnreachable(f"removal of {_name(uuid)} did not end within {limit:g} seconds") from error

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
            await self._client.call("POST", f"containers/{_name(uuid)}/update", body=body)

    async def execute(self, uuid: str, command: Sequence[str], timeout: float) -> ExecResult:
        return await docker_exec.execute(self._client, _name(uuid), command, timeout)

    async def resize(self, uuid: str, *, height: int, width: int) -> None:
        await self._post(uuid, "resize", {"h": str(height), "w": str(width)})

    # -- images and networks ---------------------------------------------------------------------

    async def pull(
        self, reference: str, auth: RegistryAuth | None, progress: Callable[[PullProgress], None]
    ) -> ImageFacts:
        """``progress`` hears each advance of any layer, and nothing while the engine only waits or retries."""
        await docker_pull.pull(self._client, reference, auth, progress)
        found = await self.image(reference)
        if found is None:
            raise ImagePullFailed(f"Error on pulling image: {reference}: it was gone when the pull had ended")
        return found

    async def has_remote_image(self, reference: str, auth: RegistryAuth | None) -> bool:
        """Asks the registry for the image's manifest, through the engine."""
        return await docker_pull.has_remote_image(self._client, reference, auth)

    async def image(self, reference: str) -> ImageFacts | None:
        try:
            return docker_facts.image_facts(await self._client.call("GET", f"images/{segment(reference)}/json"))
        except EngineNotFound:
            return None

    async def remove_image(self, reference: str) -> None:
        """Absent is success; EngineConflict while a container uses it."""
        try:
            await self._client.call("DELETE", f"images/{segment(reference)}")
        except EngineNotFound:
            return

    async def ensure_network(self, network: EngineNetwork) -> None:
        await self._networks.ensure(docker_spec.wanted(network))

    async def remove_network(self, name: str) -> None:
        await self._networks.remove(name)

    async def list_networks(self, prefix: str) -> Sequence[str]:
        return await self._networks.names(prefix)

    # -- within ----------------------------------------------------------------------------------

    async def _facts(self, uuid: str) -> Mapping[str, Any] | None:
        try:
            facts: Mapping[str, Any] = await self._client.call("GET", f"containers/{_name(uuid)}/json")
        except EngineNotFound:
            return None
        return facts

    async def _post(self, uuid: str, verb: str, params: Mapping[str, str] | None = None, *, extra: float = 0.0) -> None:
        await self._client.call("POST", f"containers/{_name(uuid)}/{verb}", params=params, extra=extra)

    async def _begin(
        self, uuid: str, verb: str, params: Mapping[str, str] | None = None, *, extra: float = 0.0
    ) -> None:
        try:
            try:
                await self._post(uuid, verb, params, extra=extra)
            except EngineError as error:
                if not await self._networks.restore(error.text):
                    raise
                await self._post(uuid, verb, params, extra=extra)
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


def _seconds(timeout: int | None) -> dict[str, str]:
    return {} if timeout is None else {"t": str(timeout)}


def _wait(timeout: int | None) -> float:
    return float(_GRACE if timeout is None else timeout)


def _mountinfo() -> str | None:
    try:
        return Path("/proc/self/mountinfo").read_text()
    except OSError:
        return None
