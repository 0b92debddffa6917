"""What a capsule holds in the world: as a container's holdings, and its own images, ports and sandbox (S2.6–S2.12)."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence

from zun.compute import image_uses
from zun.compute.capsules import spec
from zun.compute.holdings import allocation, ports, volumes
from zun.compute.holdings.base import Holding, Progress
from zun.compute.holdings.engine import to_its_end
from zun.compute.holdings.image import image_request
from zun.compute.node import Node
from zun.compute.work import Work
from zun.domain.container import Container
from zun.domain.errors import EngineUnreachable, ImageFailed
from zun.network.base import PodNetwork
from zun.runtime.base import ImageFacts
from zun.runtime.pods import Pods

NO_ENGINE = "this node has no engine for capsules; see [DEFAULT]/capsule_driver"


def engine_of(node: Node) -> Pods:
    """Raises EngineUnreachable where there is none: nothing is known of what it may still have."""
    if node.pods is None:
        raise EngineUnreachable(NO_ENGINE)
    return node.pods


class Images:
    """Images of all members, in the capsules' engine. Nothing is released: images stay cached."""

    name = "image"

    async def ensure(self, work: Work, progress: Progress) -> None:
        """Side by side; members of one image share its pull."""
        async with asyncio.TaskGroup() as group:
            pulls = {
                member.uuid: group.create_task(pull(work.node, member, progress, work.operation.id))
                for member in work.members
            }
        work.prepared.images = {uuid: pull.result() for uuid, pull in pulls.items()}

    async def release(self, work: Work) -> None:
        """Images stay."""


async def pull(node: Node, member: Container, progress: Progress | None, who: Hashable) -> ImageFacts:
    """The member's image, by its policy; it stays until ``who`` is done."""
    if node.pod_images is None:
        raise ImageFailed("This host has no engine for capsules")
    policy = (member.image_pull_policy or "always").lower()
    request = await image_request(node, member.registry_id, "docker", member.image, policy, None)
    return await image_uses.ensure(node, node.pod_images, request, progress or (lambda state: None), who)


class Volumes(volumes.VolumeMounts):
    """The capsule's volumes; each member has its own places for them."""

    async def ensure(self, work: Work, progress: Progress) -> None:
        await super().ensure(work, progress)
        work.prepared.paths = {
            mapping.uuid: mount.source for mapping, mount in zip(work.mappings, work.prepared.mounts, strict=True)
        }


class Ports(ports.Ports):
    """The capsule's ports, found by device id, with what its engine needs to plug them: handed over before the sandbox
    is made (S2.6, S2.7)."""

    def network(self, node: Node) -> PodNetwork:
        return node.pod_network or node.network


class Sandbox:
    """The sandbox, and with it everything that runs in it."""

    name = "sandbox"

    async def ensure(self, work: Work, progress: Progress) -> None:
        """Make it, or find the one made before."""
        wanted = spec.sandbox_spec(work.node, work.row, work.members, work.prepared)
        work.prepared.sandbox = await to_its_end(work.node, engine_of(work.node).run_sandbox(wanted))

    async def release(self, work: Work) -> None:
        """Stop and remove it with its members; only one of our own. Never made is success."""
        if work.node.pods is None and (work.container is None or work.container.container_id is None):
            return
        await remove_sandbox(work.node, work.uuid)


async def remove_sandbox(node: Node, uuid: str) -> bool:
    """Was there one of ours? It is gone then, with its members and interfaces."""
    pods = engine_of(node)
    found = await pods.sandbox(uuid)
    if found is None or found.owner != node.owner:
        return False
    await pods.stop_sandbox(uuid)
    await pods.remove_sandbox(uuid)
    return True


STAGES: Sequence[Sequence[Holding]] = (
    (allocation.Allocation(),),
    (Images(), Volumes(), Ports()),
    (Sandbox(),),
)
