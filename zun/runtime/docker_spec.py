"""EngineSpec to the body of Docker's create call, attachments to interfaces, and what capsules share of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from typing import Any

from zun.domain.observed import Attachment, EngineNetwork, EngineSpec, HealthCheck
from zun.runtime.docker_facts import MIB, NAME_LABEL, OWNER_LABEL, SPEC_LABEL, UUID_LABEL
from zun.runtime.fingerprint import spec_hash
from zun.runtime.pods import MemberSpec, SandboxSpec

CPU_PERIOD = 100_000
"""Microseconds; the quota is counted in them."""

LOG = {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "3"}}

_SECOND = 1_000_000_000
_LEAST_QUOTA = 1000
_LEAST_SHARES = 2
_DEFAULT_SHARES = 1024
_GRACE = 10
"""Docker's seconds between TERM and KILL when a request names none."""


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface: all addresses of one container on one engine network."""

    network: str
    mac: str = ""
    ipv4: str = ""
    ipv6: str = ""


@dataclass(frozen=True, slots=True)
class WantedNetwork:
    """An engine network with every subnet that the attachments on it name: ``(subnet, gateway)``."""

    name: str
    driver: str
    options: Mapping[str, str]
    subnets: Sequence[tuple[str, str | None]]
    ipam_driver: str = "default"
    ipam_options: Mapping[str, str] = field(default_factory=dict)

    @property
    def ipv6(self) -> bool:
        return any(ip_network(subnet, strict=False).version == 6 for subnet, _ in self.subnets)


def wanted(network: EngineNetwork) -> WantedNetwork:
    """One network of the port as this adapter makes it."""
    first = ((network.subnet, network.gateway),) if network.subnet else ()
    subnets = (*first, *network.more_subnets)
    return WantedNetwork(
        network.name, network.driver, network.options, subnets, network.ipam_driver, network.ipam_options
    )


def wanted_networks(attachments: Sequence[Attachment]) -> Sequence[WantedNetwork]:
    """Each network once, in the order of the attachments."""
    found: dict[str, WantedNetwork] = {}
    for attachment in attachments:
        new = wanted(attachment.engine_network)
        old = found.get(new.name)
        if old is not None:
            new = replace(old, subnets=(*old.subnets, *(row for row in new.subnets if row not in old.subnets)))
        found[new.name] = new
    return tuple(found.values())


def interfaces(attachments: Sequence[Attachment]) -> Sequence[Interface]:
    """Attachments of one network are one interface, whatever their versions."""
    found: dict[str, Interface] = {}
    for attachment in attachments:
        name = attachment.engine_network.name
        now = found.get(name, Interface(name, attachment.mac))
        if attachment.version == 6:
            now = replace(now, ipv6=now.ipv6 or attachment.address)
        else:
            now = replace(now, ipv4=now.ipv4 or attachment.address)
        found[name] = replace(now, mac=now.mac or attachment.mac)
    return tuple(found.values())


def endpoint(interface: Interface) -> dict[str, Any]:
    """Docker's EndpointSettings. Engines before API 1.44 take the MAC of further interfaces from the IPv4 address."""
    pairs = (("IPv4Address", interface.ipv4), ("IPv6Address", interface.ipv6))
    settings: dict[str, Any] = {"IPAMConfig": {key: value for key, value in pairs if value}}
    if interface.mac:
        settings["MacAddress"] = interface.mac
    return settings


def network_body(network: WantedNetwork, label: str) -> dict[str, Any]:
    """Body of the network's create call."""
    rows = [{"Subnet": subnet, **({"Gateway": gateway} if gateway else {})} for subnet, gateway in network.subnets]
    return {
        "Name": network.name,
        "Driver": network.driver,
        "CheckDuplicate": True,
        "EnableIPv6": network.ipv6,
        "Options": dict(network.options),
        "Labels": {label: network.name},
        "IPAM": {"Driver": network.ipam_driver, "Options": dict(network.ipam_options), "Config": rows},
    }


def cpu_limits(millicores: int) -> dict[str, int]:
    """A hard limit and a weight; 0 = none. A quota, not NanoCpus: Docker refuses NanoCpus beyond the host's cores."""
    if not millicores:
        return {"CpuPeriod": CPU_PERIOD, "CpuQuota": -1, "CpuShares": _DEFAULT_SHARES}
    return {
        "CpuPeriod": CPU_PERIOD,
        "CpuQuota": max(_LEAST_QUOTA, millicores * CPU_PERIOD // 1000),
        "CpuShares": max(_LEAST_SHARES, millicores * _DEFAULT_SHARES // 1000),
    }


def memory_limits(memory_mib: int, swap_mib: int) -> dict[str, int]:
    """Memory and memory + swap in bytes; swap -1 = unlimited. No memory limit: no swap limit either."""
    if not memory_mib:
        return {}
    return {"Memory": memory_mib * MIB, "MemorySwap": -1 if swap_mib < 0 else (memory_mib + swap_mib) * MIB}


def stop_query(timeout: int | None) -> dict[str, str]:
    """Of the calls that stop."""
    return {} if timeout is None else {"t": str(timeout)}


def stop_seconds(timeout: int | None) -> float:
    """How long such a call may rightly take."""
    return float(_GRACE if timeout is None else timeout)


def labels_of(spec: EngineSpec | MemberSpec | SandboxSpec, **ours: str) -> dict[str, str]:
    """The user's never win over ours."""
    return {
        **spec.labels,
        **ours,
        UUID_LABEL: spec.uuid,
        OWNER_LABEL: spec.owner,
        SPEC_LABEL: spec_hash(spec),
        NAME_LABEL: spec.name,
    }


def process(spec: EngineSpec | MemberSpec) -> dict[str, Any]:
    """The image, and what runs of it how."""
    body: dict[str, Any] = {
        "Image": spec.image,
        "Env": [f"{key}={value}" for key, value in spec.environment.items()],
        "Tty": spec.tty,
        "OpenStdin": spec.stdin,
    }
    if spec.command is not None:
        body["Cmd"] = list(spec.command)
    if spec.entrypoint is not None:
        body["Entrypoint"] = list(spec.entrypoint)
    if spec.workdir:
        body["WorkingDir"] = spec.workdir
    return body


def resources(spec: EngineSpec | MemberSpec) -> dict[str, Any]:
    """Of HostConfig: limits, mounts, log."""
    host: dict[str, Any] = {
        "LogConfig": LOG,
        "Privileged": spec.privileged,
        "Mounts": [
            {"Type": "bind", "Source": mount.source, "Target": mount.destination, "ReadOnly": mount.read_only}
            for mount in spec.mounts
        ],
        **memory_limits(spec.memory_mib, spec.swap_mib),
    }
    if spec.cpu_millicores:
        host |= cpu_limits(spec.cpu_millicores)
    if spec.cpuset:
        host["CpusetCpus"] = spec.cpuset
    if spec.memory_nodes:
        host["CpusetMems"] = spec.memory_nodes
    if spec.pids:
        host["PidsLimit"] = spec.pids
    return host


def networking(first: Interface | None) -> dict[str, Any]:
    """Of the one network that a container is made on."""
    if first is None:
        return {}
    mac = {"MacAddress": first.mac} if first.mac else {}
    return {"NetworkingConfig": {"EndpointsConfig": {first.network: endpoint(first)}}, **mac}


def create_body(spec: EngineSpec) -> dict[str, Any]:
    """Body of Docker's create call for ``spec``."""
    first = next(iter(interfaces(spec.attachments)), None)
    body = {**process(spec), "Labels": labels_of(spec), "HostConfig": _host_config(spec, first), **networking(first)}
    if spec.hostname:
        body["Hostname"] = spec.hostname
    if spec.healthcheck is not None:
        body["Healthcheck"] = _healthcheck(spec.healthcheck)
    if spec.exposed_ports:
        body["ExposedPorts"] = {port: {} for port in spec.exposed_ports}
    return body


def _host_config(spec: EngineSpec, first: Interface | None) -> dict[str, Any]:
    host: dict[str, Any] = {
        "NetworkMode": first.network if first else "none",
        "RestartPolicy": {
            "Name": spec.restart_name,
            "MaximumRetryCount": spec.restart_count if spec.restart_name == "on-failure" else 0,
        },
        "Init": False,
        **resources(spec),
    }
    if spec.name_servers:
        host["Dns"] = list(spec.name_servers)
    if spec.own_address and spec.hostname:
        host["ExtraHosts"] = [f"{spec.hostname}:{spec.own_address}"]
    if spec.disk_gib:
        host["StorageOpt"] = {"size": f"{spec.disk_gib}G"}
    if spec.runtime:
        host["Runtime"] = spec.runtime
    return host


def _healthcheck(check: HealthCheck) -> dict[str, Any]:
    timing = (("Interval", check.interval), ("Timeout", check.timeout))
    body: dict[str, Any] = {"Test": ["CMD-SHELL", check.command]}
    body |= {key: seconds * _SECOND for key, seconds in timing if seconds is not None}
    if check.retries is not None:
        body["Retries"] = check.retries
    return body
