"""What each kind of operation does on the node. Each function is safe to run again from its beginning."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from zun.compute.operations import capsules, commit, create, delete, evacuate, images, network, power, rebuild, release
from zun.compute.work import Outcome, Work
from zun.domain.container import Type
from zun.domain.operation import CAPSULE, Kind

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
    Kind.EVACUATE: (evacuate.run, evacuate.fail),
    Kind.NETWORK_ATTACH: (network.attach, network.fail_attach),
    Kind.NETWORK_DETACH: (network.detach, network.fail),
    Kind.ADD_SECURITY_GROUP: (network.change_groups, network.fail),
    Kind.REMOVE_SECURITY_GROUP: (network.change_groups, network.fail),
    Kind.COMMIT: (commit.run, commit.fail),
    Kind.IMAGE_PULL: (images.pull, images.fail_pull),
    Kind.IMAGE_DELETE: (images.delete, images.fail_delete),
    Kind.RELEASE: (release.run, release.fail),
}
"""Kind -> (what it does, how its failure ends)."""

OF_CAPSULES: Mapping[str, tuple[Run, Fail]] = {
    Kind.CREATE: (capsules.create, capsules.fail_create),
    Kind.DELETE: (capsules.delete, capsules.fail_delete),
    Kind.REBUILD: (capsules.rebuild, capsules.fail_rebuild),
    Kind.RELEASE: (capsules.release, capsules.fail_release),
}
"""The same for capsules."""


def chosen(work: Work) -> tuple[Run, Fail]:
    """By what the operation is of: its row, or what was noted when there was one."""
    row = work.container
    of_capsule = row.container_type == Type.CAPSULE if row is not None else bool(work.params.get(CAPSULE))
    return (OF_CAPSULES if of_capsule else OPERATIONS)[work.operation.kind]
