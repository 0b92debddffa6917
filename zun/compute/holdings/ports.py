"""Holding: the container's network ports, found by device id, and the security group of its exposed ports (S1.21, S3.5,
S3.6)."""

from __future__ import annotations

import dataclasses

from zun.compute.holdings.base import Progress
from zun.compute.node import Node
from zun.compute.work import Work
from zun.domain.container import RequestedNetwork
from zun.domain.operation import Kind
from zun.network.base import PodNetwork


class Ports:
    name = "ports"

    def network(self, node: Node) -> PodNetwork:
        """Where the ports are."""
        return node.network

    async def ensure(self, work: Work, progress: Progress) -> None:
        """Ports for ``requested_networks``, in the order asked; the group first, since it is theirs."""
        row, network = work.row, self.network(work.node)
        requested = [RequestedNetwork(**entry) for entry in row.requested_networks or ()]
        work.prepared.security_groups = await network.expose(row)
        if work.prepared.security_groups is not None:
            row = dataclasses.replace(row, security_groups=work.prepared.security_groups)
        new = work.operation.kind == Kind.CREATE and work.operation.attempt == 1
        work.prepared.attachments = await network.ensure_ports(row, requested, new=new)

    async def release(self, work: Work) -> None:
        """Own ports are deleted, given ones are as they were; the group goes."""
        if not work.elsewhere:
            await self.network(work.node).release_ports(work.uuid, exposed=_exposed(work))


def _exposed(work: Work) -> bool:
    """May there be a group? A capsule's row has what its members expose."""
    return work.container is None or bool(work.container.exposed_ports)
