"""From the rows of a capsule to what its engine is asked to make. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from zun.compute.node import Node
from zun.compute.work import Prepared
from zun.domain.container import Container, Type
from zun.domain.observed import HostMount
from zun.runtime.pods import MemberSpec, SandboxSpec

_NOT_IN_HOSTNAMES = re.compile(r"[^a-zA-Z0-9-]+")


def handler(conf: Any, capsule: Container) -> str:
    """The runtime handler: what the request or else the node names, unchanged but for ``runc``, the default of every
    engine (S2.8, S2.18)."""
    name = capsule.runtime or conf.container_runtime or ""
    return "" if name == "runc" else str(name)


def hostname(capsule: Container) -> str:
    """The capsule's name as a host can have it, else from its uuid."""
    name = _NOT_IN_HOSTNAMES.sub("-", capsule.name).strip("-")[:63].rstrip("-").lower()
    return name or f"capsule-{capsule.uuid[:8]}"


def sandbox_spec(node: Node, capsule: Container, members: Sequence[Container], prepared: Prepared) -> SandboxSpec:
    """Limits of the whole capsule only where each container has one: another's would confine those without."""
    regular = [member for member in members if member.container_type == Type.MEMBER]
    return SandboxSpec(
        uuid=capsule.uuid,
        owner=node.owner,
        name=capsule.name or capsule.uuid,
        hostname=hostname(capsule),
        handler=handler(node.conf, capsule),
        labels=dict(capsule.labels or {}),
        annotations=dict(capsule.annotations or {}),
        name_servers=tuple(dict.fromkeys(server for one in prepared.attachments for server in one.dns)),
        cpu_millicores=round(capsule.cpu * 1000) if all(member.cpu for member in regular) else 0,
        memory_mib=capsule.memory if all(member.memory for member in regular) else 0,
        attachments=tuple(prepared.attachments),
    )


def member_spec(
    node: Node, capsule: Container, member: Container, image_id: str, paths: Mapping[str, str], cpuset: str
) -> MemberSpec:
    """``paths``: volume mapping's uuid -> the host's path. Its attempt is the row's count of restarts."""
    return MemberSpec(
        uuid=member.uuid,
        capsule_uuid=capsule.uuid,
        owner=node.owner,
        name=member.name,
        image=image_id,
        attempt=member.restarts,
        command=list(member.command) if member.command else None,
        entrypoint=list(member.entrypoint) if member.entrypoint else None,
        environment=dict(member.environment or {}),
        annotations=dict(capsule.annotations or {}),
        workdir=member.workdir,
        tty=member.tty,
        stdin=member.interactive,
        cpu_millicores=round(member.cpu * 1000),
        memory_mib=member.memory,
        swap_mib=node.conf.default_memory_swap,
        pids=node.conf.compute.pids_limit,
        mounts=tuple(
            HostMount(paths[one["mapping"]], one["destination"], bool(one["read_only"]))
            for one in member.volume_mounts or ()
        ),
        cpuset=cpuset,
    )
