"""What each kind of operation does on the node. Each function is safe to run again from its beginning."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from zun.compute.operations import create, delete, power, rebuild, release
from zun.compute.work import Outcome, Work
from zun.domain.operation import Kind

Run = Callable[[Work], Awaitable[Outcome]]
Fail = Callable[[Work, Exception], Awaitable[Outcome]]

OPERATIONS: Mapping[str, tuple[Run, Fail]] = {
    Kind.CREATE: (create.run, create.fail),
    Kind.DELETE: (delete.run, delete.fail),
    Kind.START: (power.start, power.fail_start),
    Kind.STOP: (power.stop, power.fail),
    Kind.REBOOT: (power.reboot, power.fail),
    Kind.PAUSE: (power.pause, power.fail),
    Kind.UNPAUSE: (power.unpause, power.fail),
    Kind.KILL: (power.kill, power.fail),
    Kind.REBUILD: (rebuild.run, rebuild.fail),
    Kind.RELEASE: (release.run, release.fail),
}
"""Kind -> (what it does, how its failure ends)."""
