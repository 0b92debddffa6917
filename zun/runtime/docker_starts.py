"""Notices the network namespace of a starting container while the engine still prepares its process.

Docker tells of a start when the process runs already. The kernel tells earlier: the container's control group
appears, then a process in it with a namespace of its own, some 50 ms or more before that process becomes the user's,
whoever asked for the start. The process is held at that point until whoever plugs lets it go. One thread, asleep while
nothing starts, and busy only with those that are between the two: of twenty started at once most wait for the engine.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from zun.plumbing.netns import inside
from zun.runtime import cgroups
from zun.runtime.exec_hold import ExecHold
from zun.runtime.inotify import NewDirectories

LOG = logging.getLogger(__name__)

_TICK = 0.002
"""Seconds between two looks at a start that is about to run its process."""
_EASY = 0.02
"""At one that the engine has not begun, of which the kernel would tell, and at one that is held."""
_SETTING_UP = 0.01
"""At the engine's doings in a namespace."""
_IDLE = 30.0
_LIMIT = 60.0
"""Seconds that a start may last until its namespace is there."""
_ENGINES_TURN = 2.0
"""Seconds that the engine is given to have its own say in the namespace, where the process cannot be held."""
_HOLD = 20.0
"""Seconds that a process is held at most: one without network is better than an engine that waits."""

Heard = Callable[[str, int, Callable[[], None]], None]


@dataclass(slots=True)
class _Start:
    """A start under way; ``namespace`` is open from when it is known until it is told."""

    ident: str
    since: float = field(default_factory=time.monotonic)
    pid: int | None = None
    namespace: int = -1
    hold: ExecHold | None = None
    told: bool = False
    found: float = 0.0
    seen: bool = False
    """The engine has begun: its control group was there."""
    looked: float = 0.0

    @property
    def urgent(self) -> bool:
        """May its process run any moment, or is it traced and stopped by each of its signals?"""
        if self.pid is None:
            return self.seen
        return not self.told or (self.hold is not None and not (self.hold.held or self.hold.over))

    def due(self, now: float, every: float) -> bool:
        """Is it time for another look? Notes that there is one."""
        if now - self.looked < every:
            return False
        self.looked = now
        return True


class DockerStarts:
    """``heard(engine id, namespace, let go)`` is called in the thread, once a start. The open namespace is the
    callee's, who calls ``let go`` once the process may run."""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self._wanted: set[str] = set()
        self._starts: dict[str, _Start] = {}
        self._asked: list[str] = []
        self._places = cgroups.folders()
        own = os.stat("/proc/self/ns/net")
        self._own = (own.st_dev, own.st_ino)
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="container-starts", daemon=True)
        self._thread.start()

    def follow(self, ident: str) -> None:
        """Every start of this container from now on."""
        self._wanted.add(ident)

    def forget(self, ident: str) -> None:
        """The container is gone."""
        self._wanted.discard(ident)

    def holding(self, ident: str) -> bool:
        """Does its process wait at its first instruction? A look from outside: it may be let go the moment after."""
        start = self._starts.get(ident)
        return start is not None and start.hold is not None and start.hold.held and not start.hold.over

    def expect(self, ident: str) -> None:
        """The engine is about to be asked to start it."""
        self._wanted.add(ident)
        self._asked.append(ident)
        self._wake()

    def close(self) -> None:
        self._stopping = True
        self._wake()
        self._thread.join(timeout=5)
        os.close(self._wake_read)
        os.close(self._wake_write)

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        news = NewDirectories()
        try:
            while not self._stopping:
                for place in self._places:
                    news.watch(place)
                for name in news.wait(self._pause(), self._wake_read):
                    self._noticed(cgroups.engine_id(name), seen=True)
                self._drain()
                while self._asked:
                    self._noticed(self._asked.pop())
                for start in list(self._starts.values()):
                    self._guarded(start)
        except Exception:
            LOG.exception("action=watch-starts result=ended: interfaces are plugged after the start from now on")
        finally:
            news.close()
            for start in self._starts.values():
                _close(start)

    def _pause(self) -> float:
        if not self._starts:
            return _IDLE
        return _TICK if any(start.urgent for start in self._starts.values()) else _EASY

    def _noticed(self, ident: str | None, *, seen: bool = False) -> None:
        if ident is None or ident not in self._wanted:
            return
        start = self._starts.setdefault(ident, _Start(ident))
        start.seen = start.seen or seen

    def _guarded(self, start: _Start) -> None:
        try:
            over = self._advance(start)
        except Exception:
            LOG.exception("action=watch-starts container=%s result=failed", start.ident)
            over = True
        if over:
            del self._starts[start.ident]
            _close(start)

    def _advance(self, start: _Start) -> bool:
        """One look; True when nothing more is to be done."""
        now = time.monotonic()
        if start.pid is None:
            return not self._find(start, now)
        hold = start.hold
        if hold is not None:
            hold.step()
        if not start.told:
            late = now - start.found > _ENGINES_TURN if hold is None else hold.held or hold.over
            if not late and not (start.due(now, _SETTING_UP) and _ipv6_is_off(start.namespace)):
                return False
            self._tell(start)
        elif hold is not None and not hold.over and now - start.found > _HOLD:
            LOG.warning("action=hold container=%s result=let go reason=not plugged in time", start.ident)
            hold.let_go()
        return hold is None or hold.over

    def _find(self, start: _Start, now: float) -> bool:
        """Look for the process; False when there will be none."""
        pid = None
        if start.seen or start.due(now, _EASY):
            pids = cgroups.processes(start.ident, self._places)
            start.seen = start.seen or bool(pids)
            pid = cgroups.first_process(pids, self._own)
        if pid is None:
            return now - start.since < _LIMIT and start.ident in self._wanted
        try:
            start.namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # it ended at once
            return False
        start.pid, start.found = pid, now
        try:
            start.hold = ExecHold(pid)
        except OSError as error:
            LOG.warning("action=hold container=%s result=failed reason=%s", start.ident, error)
        return True

    def _tell(self, start: _Start) -> None:
        namespace, start.namespace, start.told = start.namespace, -1, True
        hold = start.hold
        self._heard(start.ident, namespace, self._wake if hold is None else self._letting_go(hold))

    def _letting_go(self, hold: ExecHold) -> Callable[[], None]:
        def let_go() -> None:
            hold.let_go()
            self._wake()

        return let_go

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"x")
        except BlockingIOError:  # it is awake
            return

    def _drain(self) -> None:
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            return


def _close(start: _Start) -> None:
    if start.namespace >= 0:
        os.close(start.namespace)
        start.namespace = -1


def _ipv6_is_off(namespace: int) -> bool:
    """Docker's last act in a namespace is to switch IPv6 off in it, which takes the addresses away that are there."""
    try:
        with inside(namespace):
            return Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").read_text().strip() == "1"
    except FileNotFoundError:  # a kernel without IPv6
        return True
