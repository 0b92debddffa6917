"""What the daemon does for ADD, DEL and CHECK: the interfaces of one capsule after another, each safe to repeat.

Nothing is remembered but in files and in the kernel: a daemon that starts anew goes on where the former one died.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from zun.cni.call import BAD_CONFIG, BAD_VARIABLES, DIFFERS, FAILED_IO, LATER, NOT_ACTIVE, UNKNOWN, Call, CniError
from zun.cni.result import result
from zun.domain.errors import NetworkSetupFailed
from zun.network.direct_active import ActivePorts
from zun.plumbing.handover import Handover, HandoverBroken, Handovers
from zun.plumbing.plumber import Plumber

LOG = logging.getLogger(__name__)

T = TypeVar("T")

_NS_GET_NSTYPE = 0xB703
_CLONE_NEWNET = 0x40000000


class Interfaces:
    """Raises CniError, NetworkSetupFailed, ServiceUnavailable. ``active`` None: this node has no Neutron; ``patience``
    in seconds."""

    def __init__(self, handovers: Handovers, plumber: Plumber, active: ActivePorts | None, patience: float) -> None:
        self._handovers = handovers
        self._plumber = plumber
        self._active = active
        self._patience = patience
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._waits: dict[str, asyncio.Task[None]] = {}
        self._stopping = False

    @property
    def waiting(self) -> int:
        """Calls that wait for Neutron now."""
        return len(self._waits)

    async def finish(self, seconds: float) -> None:
        """Let calls that wait for Neutron end; those that do not in time fail, and are undone."""
        if self._waits:
            await asyncio.wait(list(self._waits.values()), timeout=seconds)
        self._stopping = True
        for wait in self._waits.values():
            wait.cancel()

    async def add(self, call: Call) -> dict[str, Any]:
        """All interfaces are in the namespace, and packets pass (S2.10, S2.11): CNI's result. What failed, or is no
        longer waited for, leaves nothing. A sandbox made later takes them over from a former one."""
        handover = await self._data(call)
        with _opened(call.namespace) as namespace:
            try:
                names = await _to_end(self._plug(call, handover, namespace))
                if handover.awaited:
                    await self._usable(call, handover)
            except BaseException:
                await _to_end(self._unplug(call, handover))
                raise
        return result(call.version, handover, names, call.namespace)

    async def delete(self, call: Call) -> None:
        """Nothing of this sandbox's is left; what another one has by now stays. Nothing there is success."""
        if not call.capsule:
            return
        if (wait := self._waits.get(call.sandbox)) is not None:
            wait.cancel()
        try:
            handover = await asyncio.to_thread(self._handovers.get, call.capsule)
        except HandoverBroken as error:
            LOG.warning("action=del capsule=%s reason=%s", call.capsule, error.message)
            handover = None
        await _to_end(self._unplug(call, handover))

    async def check(self, call: Call) -> None:
        """Raises CniError naming what is not as ADD left it."""
        handover = await self._data(call)
        noted = await asyncio.to_thread(self._handovers.noted, call.capsule)
        if noted != call.sandbox:
            raise CniError(
                404, UNKNOWN, f"The interfaces of capsule {call.capsule} are not in sandbox {call.sandbox[:12]}."
            )
        with _opened(call.namespace) as namespace:
            problems = await self._plumber.problems(handover.vifs, namespace)
        if problems:
            raise CniError(500, DIFFERS, f"Capsule {call.capsule}: {'; '.join(problems)}.")

    # -- within --------------------------------------------------------------------------------------

    async def _data(self, call: Call) -> Handover:
        try:
            handover = await asyncio.to_thread(self._handovers.get, call.capsule)
        except HandoverBroken as error:
            raise CniError(500, FAILED_IO, error.message) from error
        if handover is None:
            raise CniError(404, UNKNOWN, f"This node has no interface data of capsule {call.capsule}.")
        if not handover.vifs:
            raise CniError(500, BAD_CONFIG, f"Capsule {call.capsule} has no port.")
        return handover

    async def _plug(self, call: Call, handover: Handover, namespace: int) -> list[str]:
        async with self._lock(call.capsule):
            await asyncio.to_thread(self._handovers.note, call.capsule, call.sandbox)
            for vif in handover.vifs:
                await self._plumber.prepare(vif)
            await self._plumber.connect(handover.vifs, namespace)
            names = list(await self._plumber.names(handover.vifs, namespace))
        if not await asyncio.to_thread(self._handovers.there, call.capsule):
            raise CniError(409, UNKNOWN, f"Capsule {call.capsule} gave its interfaces back meanwhile.")
        return names

    async def _usable(self, call: Call, handover: Handover) -> None:
        if self._active is None:
            raise CniError(
                500, BAD_CONFIG, "The ports are Neutron's, and [network]/driver of the daemon's zun.conf is local."
            )
        ports = [vif.port_id for vif in handover.vifs]
        self._active.forget(ports)
        wait = self._waits[call.sandbox] = asyncio.create_task(self._active.wait(ports, self._patience))
        try:
            await asyncio.shield(wait)
        except NetworkSetupFailed as error:
            raise CniError(504, NOT_ACTIVE, error.message) from error
        except asyncio.CancelledError:
            if not wait.cancelled():  # not the wait's end but ours: nobody listens any more
                wait.cancel()
                raise
            if self._stopping:
                raise CniError(503, LATER, "zun-cni-daemon was told to stop while it waited for Neutron.") from None
            raise CniError(409, LATER, f"Sandbox {call.sandbox[:12]} was deleted meanwhile.") from None
        finally:
            if self._waits.get(call.sandbox) is wait:
                del self._waits[call.sandbox]

    async def _unplug(self, call: Call, handover: Handover | None) -> None:
        async with self._lock(call.capsule):
            noted = await asyncio.to_thread(self._handovers.noted, call.capsule)
            if noted not in (None, call.sandbox):
                LOG.info("action=unplug capsule=%s sandbox=%s result=another has them", call.capsule, call.sandbox[:12])
                return
            await self._plumber.remove(call.capsule, handover.vifs if handover else ())
            await asyncio.to_thread(self._handovers.forget, call.capsule)

    def _lock(self, capsule: str) -> asyncio.Lock:
        return self._locks.setdefault(capsule, asyncio.Lock())


async def _to_end(work: Coroutine[Any, Any, T]) -> T:
    """Threads cannot be called off: one who no longer waits leaves when the work is over."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    """A network namespace that is not the host's. Raises CniError."""
    try:
        namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise CniError(400, BAD_VARIABLES, f"CNI_NETNS {path}: {error.strerror}.") from error
    try:
        if not _is_network_namespace(namespace):
            raise CniError(400, BAD_VARIABLES, f"CNI_NETNS {path} is not a network namespace.")
        if os.path.samestat(os.fstat(namespace), os.stat("/proc/self/ns/net")):
            raise CniError(400, BAD_VARIABLES, f"CNI_NETNS {path} is the host's own namespace.")
        yield namespace
    finally:
        os.close(namespace)


def _is_network_namespace(handle: int) -> bool:
    try:
        return fcntl.ioctl(handle, _NS_GET_NSTYPE) == _CLONE_NEWNET
    except OSError as error:
        if error.errno not in (errno.ENOTTY, errno.EINVAL, errno.EBADF):
            raise
        return False
