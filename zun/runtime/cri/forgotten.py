"""What containerd has forgotten of sandboxes: killed, or broken off while it made one, it leaves a shim with what that
runs, folders, mounts and a network namespace, and knows nothing of them afterwards.

Only that is touched which tells that it is ours, or which nobody can have any more; see docs/decisions/0031.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil

from zun.domain.errors import EngineNotFound
from zun.runtime.cri import forsaken, shims
from zun.runtime.cri.client import CriClient
from zun.runtime.cri.engine_host import EngineProcess, OutOfReach, engine_process
from zun.runtime.cri.facts import READY, EngineFacts
from zun.runtime.pods import Forgotten

LOG = logging.getLogger(__name__)

SHIM, NAMESPACE = "shim", "namespace"
_TASKS = "io.containerd.runtime.v2.task"
_DELETE_SECONDS = 20.0
_ENDS_SECONDS = 5.0
_LEAVES_SECONDS = 1.0


class Remains:
    """``logs``: folder of the capsules' logs, by which a sandbox of ours is known."""

    def __init__(self, client: CriClient, logs: Path) -> None:
        self._client = client
        self._logs = logs
        self._socket = client.endpoint.removeprefix("unix://")
        self._told = ""

    async def all(self) -> Sequence[Forgotten]:
        """As the port's ``forgotten``. Raises the port's errors."""
        known = await self._client.connect()
        engine = await self._engine()
        if engine is None:
            return []
        found = await asyncio.to_thread(self._shims, known)
        listed = (await self._client.call("ListPodSandbox")).items
        ready = {row.id for row in listed if row.state == READY}
        gone = [one for one in found if one.name not in ready and not await self._has(one.name)]
        return [*gone, *await self._namespaces(known, engine)]

    async def end(self, one: Forgotten) -> bool:
        """As the port's ``end_forgotten``."""
        known = await self._client.connect()
        engine = await self._engine()
        if engine is None:
            return False
        if one.kind == NAMESPACE:
            if one not in await self._namespaces(known, engine):
                return False
            await asyncio.to_thread(forsaken.remove, Path(one.name))
        elif await self._has(one.name):
            return False
        else:
            await asyncio.to_thread(self._end_shim, known, one.name)
        LOG.warning("action=forgotten kind=%s name=%s capsule=%s result=removed", one.kind, one.name, one.capsule)
        return True

    async def end_of(self, capsule: str, idents: Sequence[str]) -> None:
        """The shims of these sandboxes of the capsule, and of others of it, that the engine does not have. To be called
        when no sandbox of it is being made. Raises the port's errors."""
        known = await self._client.connect()
        if await self._engine() is None:
            return
        await asyncio.to_thread(self._wait, idents)
        for one in await asyncio.to_thread(self._shims, known, frozenset(idents)):
            if one.capsule == capsule or one.name in idents:
                await self.end(one)

    async def end_bundle(self, member: str) -> None:
        """The folder of a member that the engine does not have any more, with what its runtime keeps; neither the shim
        nor the namespace, which are its sandbox's. Raises the port's errors."""
        known = await self._client.connect()
        bundle = _bundles(known) / member
        if await self._engine() is not None and not await self._has(member):
            await asyncio.to_thread(_end_bundle, self._socket, bundle)

    async def kill(self, ident: str) -> bool:
        """The shim of a sandbox that the engine has and cannot come to an end with, and all below it; was it there?"""
        if await self._engine() is None:
            return False
        return await asyncio.to_thread(self._kill, ident)

    # -- what there is ---------------------------------------------------------------------------

    async def _engine(self) -> EngineProcess | None:
        try:
            found = await asyncio.to_thread(engine_process, self._socket)
        except OutOfReach as error:
            if str(error) != self._told:
                self._told = str(error)
                LOG.warning(
                    "action=forgotten endpoint=%s result=not looked for reason=%s", self._client.endpoint, error
                )
            return None
        except OSError as error:
            LOG.debug("action=forgotten endpoint=%s result=unknown reason=%s", self._client.endpoint, error)
            return None
        self._told = ""
        return found

    async def _has(self, ident: str) -> bool:
        """A sandbox that is being made has its record in containerd before it has a shim; a ghost has none."""
        with contextlib.suppress(EngineNotFound):
            await self._client.call("Containers.Get", id=ident)
            return True
        with contextlib.suppress(EngineNotFound):
            found = await self._client.call("PodSandboxStatus", pod_sandbox_id=ident)
            return bool(found.status.state == READY)
        return False

    def _shims(self, known: EngineFacts, idents: frozenset[str] = frozenset()) -> Sequence[Forgotten]:
        """Ours, by their bundles; those without any that run nothing; bundles that no shim works for. The engine may
        have them."""
        folders = {path: shims.capsule_of(path, self._logs) for path in shims.bundles(_bundles(known))}
        ours = {path.name: capsule for path, capsule in folders.items() if capsule or path.name in idents}
        for ident in idents:
            if known.state and Path(known.state, "sandboxes", ident).exists():
                ours.setdefault(ident, "")
        running = shims.running(self._socket)
        for shim in running:
            if shim.ident in idents or (not shim.bundle.exists() and shim.idle):
                ours.setdefault(shim.ident, "")
        working = {shim.ident for shim in running}
        for path in folders:
            if working.isdisjoint({path.name, shims.sandbox_of(path)}):
                ours.setdefault(path.name, "")
        return [Forgotten(SHIM, ident, capsule) for ident, capsule in sorted(ours.items())]

    async def _namespaces(self, known: EngineFacts, engine: EngineProcess) -> Sequence[Forgotten]:
        """None that may be in the making: those are later than the engine's own begin."""
        if not known.state or not (known.own_namespaces or engine.alone):
            return []
        found = await asyncio.to_thread(forsaken.empty, _namespaces(known), engine.began)
        if not found:
            return []
        answer = await self._client.call("Containers.List")
        specs = [row.spec.value for row in answer.containers]
        nobodys = await asyncio.to_thread(forsaken.not_joined, found, specs)
        return [Forgotten(NAMESPACE, str(path)) for path in nobodys]

    def _wait(self, idents: Sequence[str]) -> None:
        """A shim that was told to end does so soon."""
        ending = [shim.process for shim in shims.running(self._socket) if shim.ident in idents]
        psutil.wait_procs(ending, timeout=_LEAVES_SECONDS)

    # -- its end: blocking -------------------------------------------------------------------------

    def _end_shim(self, known: EngineFacts, ident: str) -> None:
        bundle = _bundles(known) / ident
        found = [shim for shim in shims.running(self._socket) if shim.ident == ident]
        joined = Path(shims.namespace_of(bundle))
        within = [one for one in shims.bundles(bundle.parent) if ident in (one.name, shims.sandbox_of(one))]
        self._kill(ident)  # an engine that had an eye on the shim removes the bundles itself
        for one in within:
            _undo_runtime(found[0].program if found else "", self._socket, one)
        for one in within:
            _remove_bundle(one)
        if joined.parent in (_namespaces(known), forsaken.SHARED):
            forsaken.remove(joined)
        for folder in (known.state, known.root):
            if folder:
                _remove_folder(Path(folder, "sandboxes", ident))

    def _kill(self, ident: str) -> bool:
        doomed: list[psutil.Process] = []
        for shim in shims.running(self._socket):
            if shim.ident == ident:
                with contextlib.suppress(psutil.Error):
                    doomed += [*shim.process.children(recursive=True), shim.process]
        for process in reversed(doomed):  # the shim first: it cannot start anything then
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(doomed, timeout=_ENDS_SECONDS)
        return bool(doomed)


def _namespaces(known: EngineFacts) -> Path:
    return Path(known.state, "netns") if known.own_namespaces else forsaken.SHARED


def _bundles(known: EngineFacts) -> Path:
    return Path(known.state).parent / _TASKS / shims.ENGINE_NAMESPACE


def _end_bundle(socket: str, bundle: Path) -> None:
    if bundle.exists():
        _undo_runtime("", socket, bundle)
        _remove_bundle(bundle)


def _undo_runtime(program: str, socket: str, bundle: Path) -> None:
    """What containerd itself does where a shim died: the shim's program removes what its runtime keeps."""
    with contextlib.suppress(OSError):
        program = program or (bundle / "shim-binary-path").read_text().strip()
    if not Path(program).is_absolute() or not (bundle / "config.json").exists():
        return
    words = ["-namespace", shims.ENGINE_NAMESPACE, "-address", socket, "-publish-binary", "/bin/true"]
    command = [program, *words, "-id", bundle.name, "-bundle", str(bundle), "delete"]
    try:
        done = subprocess.run(command, cwd=bundle, capture_output=True, timeout=_DELETE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        LOG.warning("action=forgotten shim=%s result=runtime not asked reason=%s", bundle.name, error)
        return
    if done.returncode:
        LOG.info(
            "action=forgotten shim=%s runtime=%s", bundle.name, done.stderr.decode(errors="replace")[-200:].strip()
        )


def _remove_bundle(bundle: Path) -> None:
    with contextlib.suppress(OSError):
        Path((bundle / "address").read_text().strip().removeprefix("unix://")).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        work = (bundle / "work").resolve()
        if work.name == bundle.name and work != bundle:
            _remove_folder(work)
    _remove_folder(bundle)


def _remove_folder(folder: Path) -> None:
    """With what is mounted in it, one or two levels down. Raises OSError when something stays mounted."""
    for path in [*folder.glob("*/*"), *folder.glob("*"), folder]:
        if not path.is_symlink():
            forsaken.unmount(path)
    shutil.rmtree(folder, ignore_errors=True)
