"""From a container's row and its prepared holdings to what the engine is asked to make. Pure."""

from __future__ import annotations

from zun.compute.node import Node
from zun.compute.work import Prepared
from zun.domain.container import Container
from zun.domain.observed import NO_ENGINE_NETWORK, EngineSpec, HealthCheck


def engine_spec(node: Node, row: Container, prepared: Prepared) -> EngineSpec:
    """Limits are real: cpu a quota, memory with swap bounded, pids bounded; 0 means no limit asked."""
    restart = row.restart_policy or {}
    image = prepared.image
    plugged = [one for one in prepared.attachments if one.engine_network == NO_ENGINE_NETWORK]
    return EngineSpec(
        uuid=row.uuid,
        owner=node.owner,
        name=row.name,
        image=image.image_id if image else row.image,
        command=list(row.command) if row.command else None,
        entrypoint=list(row.entrypoint) if row.entrypoint else None,
        environment=dict(row.environment or {}),
        labels=dict(row.labels or {}),
        workdir=row.workdir,
        hostname=row.hostname,
        tty=row.tty,
        stdin=row.interactive,
        cpu_millicores=round(row.cpu * 1000),
        memory_mib=row.memory,
        swap_mib=node.conf.default_memory_swap,
        pids=node.conf.compute.pids_limit,
        disk_gib=row.disk,
        restart_name=restart.get("Name", "no"),
        restart_count=int(restart.get("MaximumRetryCount") or 0),
        runtime=row.runtime,
        privileged=row.privileged,
        healthcheck=_healthcheck(row),
        mounts=tuple(prepared.mounts),
        attachments=tuple(one for one in prepared.attachments if one not in plugged),
        name_servers=tuple(dict.fromkeys(server for one in plugged for server in one.dns)),
        own_address=plugged[0].address if plugged else None,
        exposed_ports=tuple(row.exposed_ports or ()),
        cpuset=prepared.cpuset,
        memory_nodes=prepared.memory_nodes,
    )


def _healthcheck(row: Container) -> HealthCheck | None:
    asked = row.healthcheck
    if not asked or not asked.get("test"):
        return None

    def seconds(name: str) -> int | None:
        value = asked.get(name)
        return int(value) if value not in (None, "") else None

    return HealthCheck(str(asked["test"]), seconds("interval"), seconds("timeout"), seconds("retries"))
