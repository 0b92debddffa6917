"""SandboxSpec and MemberSpec to CRI's configurations. Pure."""

from __future__ import annotations

from typing import Any

from zun.runtime.cri.facts import CAPSULE_LABEL, MEMBER, PART_LABEL, SANDBOX
from zun.runtime.cri.protocol import message, number
from zun.runtime.docker_facts import NAME_LABEL, OWNER_LABEL, SPEC_LABEL, UUID_LABEL
from zun.runtime.docker_spec import CPU_PERIOD, cpu_limits, memory_limits
from zun.runtime.fingerprint import spec_hash
from zun.runtime.pods import MemberSpec, SandboxSpec

NAMESPACE = "zun"
"""Of CRI's metadata: keeps our names apart from those of a kubelet on the same engine."""

_POD = number("NamespaceMode", "POD")
_OWN = number("NamespaceMode", "CONTAINER")
_DEFAULT_PROFILE = number("SecurityProfile.ProfileType", "RuntimeDefault")
_UNCONFINED = number("SecurityProfile.ProfileType", "Unconfined")

# What Docker hides and locks in a container that is not privileged; CRI leaves it to its caller.
_MASKED = (
    *("/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug"),
    *("/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware"),
)
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")

_HOSTNAME = "org.openstack.zun.hostname"
"""Annotation of a sandbox; CRI's lists do not tell it, and its members are to be told."""

_SYSCTLS = {"net.ipv4.ip_unprivileged_port_start": "0"}
"""As Docker does: also an image that runs as another user than root may listen on port 80."""


def sandbox_config(spec: SandboxSpec, *, logs: str, group: str, attempt: int = 0) -> Any:
    """``logs``: absolute folder of the capsule's logs; ``group``: its control group, empty = the engine's choice;
    ``attempt``: makes the name another one than those that the engine does not give free."""
    return message("PodSandboxConfig")(
        metadata={"name": f"zun-{spec.uuid}", "uid": spec.uuid, "namespace": NAMESPACE, "attempt": attempt},
        hostname=_hostname(spec),
        log_directory=logs,
        dns_config={"servers": spec.name_servers} if spec.name_servers else None,
        labels={
            **spec.labels,
            UUID_LABEL: spec.uuid,
            OWNER_LABEL: spec.owner,
            SPEC_LABEL: spec_hash(spec),
            NAME_LABEL: spec.name,
            PART_LABEL: SANDBOX,
        },
        annotations={**spec.annotations, _HOSTNAME: _hostname(spec)},
        linux={
            "cgroup_parent": group,
            "sysctls": _SYSCTLS,
            "resources": resources(cpu_millicores=spec.cpu_millicores, memory_mib=spec.memory_mib),
            "security_context": {
                "namespace_options": {"network": _POD, "pid": _OWN, "ipc": _POD},
                "privileged": spec.privileged,
                "seccomp": {"profile_type": _UNCONFINED if spec.privileged else _DEFAULT_PROFILE},
            },
        },
    )


def sandbox_context(row: Any, *, logs: str, group: str, privileged: bool) -> Any:
    """What a member's CreateContainer has to be told of its sandbox, from the row of the list."""
    return message("PodSandboxConfig")(
        metadata=row.metadata,
        hostname=row.annotations.get(_HOSTNAME, ""),
        log_directory=logs,
        labels=row.labels,
        annotations=row.annotations,
        linux={"cgroup_parent": group, "security_context": {"privileged": privileged}},
    )


def member_config(spec: MemberSpec, *, log_path: str, ghosts: int = 0) -> Any:
    """``log_path``: relative to the sandbox's folder of logs. ``ghosts``: how many of its names are not given free."""
    limits = resources(
        cpu_millicores=spec.cpu_millicores,
        memory_mib=spec.memory_mib,
        swap_mib=spec.swap_mib,
        cpuset=spec.cpuset,
        memory_nodes=spec.memory_nodes,
    )
    return message("ContainerConfig")(
        metadata={"name": f"{spec.uuid}-{ghosts}" if ghosts else spec.uuid, "attempt": spec.attempt},
        image={"image": spec.image},
        command=list(spec.entrypoint or ()),
        args=list(spec.command or ()),
        working_dir=spec.workdir or "",
        envs=[{"key": key, "value": value} for key, value in spec.environment.items()],
        mounts=[
            {"host_path": mount.source, "container_path": mount.destination, "readonly": mount.read_only}
            for mount in spec.mounts
        ],
        labels={
            **spec.labels,
            UUID_LABEL: spec.uuid,
            CAPSULE_LABEL: spec.capsule_uuid,
            OWNER_LABEL: spec.owner,
            SPEC_LABEL: spec_hash(spec),
            NAME_LABEL: spec.name,
            PART_LABEL: MEMBER,
        },
        annotations=spec.annotations,
        log_path=log_path,
        stdin=spec.stdin,
        tty=spec.tty,
        linux={"resources": limits, "security_context": _security(spec)},
    )


def resources(
    *,
    cpu_millicores: int | None = None,
    memory_mib: int | None = None,
    swap_mib: int = 0,
    cpuset: str = "",
    memory_nodes: str = "",
) -> Any:
    """Limits; None leaves what is, 0 = no limit (of memory: leaves what is)."""
    found = message("LinuxContainerResources")(cpuset_cpus=cpuset, cpuset_mems=memory_nodes)
    if cpu_millicores is not None:
        limits = cpu_limits(cpu_millicores)
        found.cpu_period, found.cpu_quota = CPU_PERIOD, limits["CpuQuota"]
        found.cpu_shares = limits["CpuShares"]
    if memory_mib:
        memory = memory_limits(memory_mib, swap_mib)
        found.memory_limit_in_bytes = memory["Memory"]
        found.memory_swap_limit_in_bytes = memory["MemorySwap"]
    return found


def _hostname(spec: SandboxSpec) -> str:
    # Without one the engine gives the node's own name.
    return spec.hostname or f"capsule-{spec.uuid[:8]}"


def _security(spec: MemberSpec) -> dict[str, Any]:
    # Each member has its own processes: in a shared namespace the sandbox's one is number 1, and all die with it.
    found: dict[str, Any] = {
        "namespace_options": {"network": _POD, "pid": _OWN, "ipc": _POD},
        "privileged": spec.privileged,
        # Without this message there is no seccomp at all.
        "seccomp": {"profile_type": _UNCONFINED if spec.privileged else _DEFAULT_PROFILE},
    }
    if not spec.privileged:
        found |= {"masked_paths": _MASKED, "readonly_paths": _READ_ONLY}
    return found
