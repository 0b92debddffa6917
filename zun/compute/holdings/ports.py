"""Holding: the container's network ports, found by device id (S1.21, S3.5)."""

from __future__ import annotations

from zun.compute.holdings.base import Progress
from zun.compute.work import Work
from zun.domain.container import RequestedNetwork


class Ports:
    name = "ports"

    async def ensure(self, work: Work, progress: Progress) -> None:
        """Ports for ``requested_networks``, in the order asked."""
        requested = [RequestedNetwork(**entry) for entry in work.row.requested_networks or ()]
        work.prepared.attachments = await work.node.network.ensure_ports(work.row, requested)

    async def release(self, work: Work) -> None:
        """Own ports are deleted, given ones unbound."""
        await work.node.network.release_ports(work.uuid)
