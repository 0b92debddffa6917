"""Sandboxes and members as the bodies of Docker's create calls, and back from what Docker says of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zun.domain.observed import Observed
from zun.runtime.docker_facts import OWNER_LABEL, SPEC_LABEL, UUID_LABEL, observed_from_inspect, parse_time
from zun.runtime.docker_spec import LOG, interfaces, labels_of, networking, process, resources
from zun.runtime.pods import MemberSpec, Sandbox, SandboxSpec

CAPSULE_LABEL = "org.openstack.zun.capsule"
ATTEMPT_LABEL = "org.openstack.zun.attempt"
"""Of members only."""
SANDBOX_PREFIX = "zunpod-"
MEMBER_PREFIX = "zunmember-"


def sandbox_body(spec: SandboxSpec, image: str) -> dict[str, Any]:
    """A pause container on the capsule's first network; the others are joined afterwards."""
    first = next(iter(interfaces(spec.attachments)), None)
    host: dict[str, Any] = {
        "NetworkMode": first.network if first else "none",
        "IpcMode": "shareable",
        "RestartPolicy": {"Name": "no"},
        "LogConfig": LOG,
    }
    if spec.name_servers:
        host["Dns"] = list(spec.name_servers)
    if spec.handler:
        host["Runtime"] = spec.handler
    body = {
        "Image": image,
        "Labels": labels_of(spec, **{CAPSULE_LABEL: spec.uuid}),
        "HostConfig": host,
        **networking(first),
    }
    if spec.hostname:
        body["Hostname"] = spec.hostname
    return body


def member_body(spec: MemberSpec, sandbox: Mapping[str, Any]) -> dict[str, Any]:
    """A container in the namespaces of ``sandbox`` (its inspect form): network, host name and IPC; processes are its
    own."""
    box = f"container:{sandbox['Id']}"
    host: dict[str, Any] = {
        "NetworkMode": box,
        "IpcMode": box,
        "RestartPolicy": {"Name": "no"},  # by the node's agent: the engine would not say when
        **resources(spec),
    }
    if runtime := handler_of(sandbox):
        host["Runtime"] = runtime
    ours = {CAPSULE_LABEL: spec.capsule_uuid, ATTEMPT_LABEL: str(spec.attempt)}
    return {**process(spec), "Labels": labels_of(spec, **ours), "HostConfig": host}


def handler_of(facts: Mapping[str, Any]) -> str:
    """The runtime asked for; empty for the default one."""
    runtime = str((facts.get("HostConfig") or {}).get("Runtime") or "")
    return "" if runtime == "runc" else runtime


def sandbox_of(facts: Mapping[str, Any]) -> Sandbox:
    """From the inspect form."""
    labels = (facts.get("Config") or {}).get("Labels") or {}
    networks = ((facts.get("NetworkSettings") or {}).get("Networks") or {}).values()
    given = [one.get(name) for one in networks for name in ("IPAddress", "GlobalIPv6Address")]
    return Sandbox(
        uuid=labels.get(CAPSULE_LABEL, ""),
        sandbox_id=facts["Id"],
        ready=bool((facts.get("State") or {}).get("Running")),
        owner=labels.get(OWNER_LABEL, ""),
        spec_hash=labels.get(SPEC_LABEL, ""),
        handler=handler_of(facts),
        addresses=tuple(address for address in given if address),
        created_at=parse_time(facts.get("Created")),
    )


def sandbox_of_row(row: Mapping[str, Any]) -> Sandbox:
    """From the list form; without handler and addresses."""
    labels = row.get("Labels") or {}
    return Sandbox(
        labels.get(CAPSULE_LABEL, ""),
        row["Id"],
        row.get("State") == "running",
        labels.get(OWNER_LABEL, ""),
        labels.get(SPEC_LABEL, ""),
    )


def member_of(facts: Mapping[str, Any]) -> Observed:
    """From the inspect form. What did not end has no exit code."""
    labels = (facts.get("Config") or {}).get("Labels") or {}
    found = observed_from_inspect(labels.get(UUID_LABEL, ""), facts)
    return replace(
        found,
        exit_code=found.exit_code if found.state in ("exited", "dead") else None,
        capsule_uuid=labels.get(CAPSULE_LABEL, ""),
        attempt=int(labels.get(ATTEMPT_LABEL) or 0),
    )


def member_of_row(row: Mapping[str, Any]) -> Observed:
    """From the list form."""
    labels = row.get("Labels") or {}
    return Observed(
        uuid=labels.get(UUID_LABEL, ""),
        engine_id=row["Id"],
        state=row.get("State", "unknown"),
        owner=labels.get(OWNER_LABEL, ""),
        spec_hash=labels.get(SPEC_LABEL, ""),
        capsule_uuid=labels.get(CAPSULE_LABEL, ""),
        attempt=int(labels.get(ATTEMPT_LABEL) or 0),
    )
