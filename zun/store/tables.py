"""The tables. The only place that names columns; Alembic's migrations are compared with it in CI."""

from __future__ import annotations

import sqlalchemy as sa

from zun.store.columns import BIG as _BIG
from zun.store.columns import Json, metadata
from zun.store.columns import long_text as _long
from zun.store.columns import real as _real
from zun.store.columns import row_id as _id
from zun.store.columns import table as _table
from zun.store.columns import when as _when
from zun.store.event_tables import status_events
from zun.store.local_tables import (
    local_allocations,
    local_inventories,
    local_networks,
    local_ports,
    local_projects,
    local_providers,
    local_tokens,
    local_volumes,
)
from zun.store.request_tables import idempotency_keys

__all__ = [
    "Json",
    "idempotency_keys",
    "local_allocations",
    "local_inventories",
    "local_networks",
    "local_ports",
    "local_projects",
    "local_providers",
    "local_tokens",
    "local_volumes",
    "metadata",
    "status_events",
]

containers = _table(
    "containers",
    _id(),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("generation", sa.Integer, nullable=False, default=0),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("name_key", sa.String(255), nullable=False),  # lower case, for the unique-name check
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("image", sa.String(255), nullable=False),
    sa.Column("image_driver", sa.String(255), nullable=False),
    sa.Column("command", Json),
    sa.Column("entrypoint", Json),
    sa.Column("cpu", _real(), nullable=False),
    sa.Column("cpu_policy", sa.String(16), nullable=False),
    sa.Column("memory", sa.Integer, nullable=False),
    sa.Column("disk", sa.Integer, nullable=False),
    sa.Column("workdir", _long()),
    sa.Column("hostname", sa.String(255)),
    sa.Column("environment", Json),
    sa.Column("labels", Json),
    sa.Column("restart_policy", Json),
    sa.Column("interactive", sa.Boolean, nullable=False),
    sa.Column("tty", sa.Boolean, nullable=False),
    sa.Column("auto_remove", sa.Boolean, nullable=False),
    sa.Column("auto_heal", sa.Boolean, nullable=False),
    sa.Column("privileged", sa.Boolean, nullable=False),
    sa.Column("runtime", sa.String(255)),
    sa.Column("image_pull_policy", sa.String(16)),
    sa.Column("availability_zone", sa.String(255)),
    sa.Column("hints", Json),
    sa.Column("healthcheck", Json),
    sa.Column("exposed_ports", Json),
    sa.Column("security_groups", Json),
    sa.Column("requested_networks", Json),
    sa.Column("registry_id", _BIG, sa.ForeignKey("registries.id")),
    sa.Column("host", sa.String(255)),
    sa.Column("container_id", sa.String(255)),
    sa.Column("status", sa.String(20), nullable=False),
    sa.Column("status_reason", _long()),
    sa.Column("status_detail", sa.String(255)),
    sa.Column("task_state", sa.String(32)),
    sa.Column("ports", Json),
    sa.Column("addresses", Json),
    sa.Column("image_uuid", sa.String(36)),
    sa.Column("engine_image", sa.String(255)),
    sa.Column("created_at", _when(), nullable=False),
    sa.Column("updated_at", _when()),
    sa.Column("started_at", _when()),
    sa.Column("counted", sa.Boolean, nullable=False, default=True, server_default=sa.true()),
    sa.Column("container_type", sa.String(32), nullable=False, default="container", server_default="container"),
    sa.Column("capsule_uuid", sa.String(36), index=True),  # of a member: its capsule
    sa.Column("annotations", Json),
    sa.Column("volume_mounts", Json),
    sa.Column("restarts", sa.Integer, nullable=False, default=0, server_default="0"),
    sa.Column("back_off", sa.Integer, nullable=False, default=0, server_default="0"),  # seconds
    sa.Column("restart_at", _when()),
    sa.Column("exit_code", sa.Integer),
    sa.Index("ix_containers_project_id_id", "project_id", "id"),
    sa.Index("ix_containers_host_id", "host", "id"),
    sa.Index("ix_containers_name", "name"),
    sa.Index("ix_containers_name_key", "name_key"),
    sa.Index("ix_containers_registry_id", "registry_id"),
)

volume_mappings = _table(
    "volume_mappings",
    _id(),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("container_uuid", sa.String(36), nullable=False, index=True),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("driver", sa.String(16), nullable=False),
    sa.Column("destination", _long(), nullable=False),
    sa.Column("volume_id", sa.String(36), index=True),
    sa.Column("auto_remove", sa.Boolean, nullable=False),
    sa.Column("contents", _long()),
    sa.Column("connection", Json),
)

operations = _table(
    "operations",
    _id(),
    sa.Column("container_uuid", sa.String(36), nullable=False, index=True),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("hidden", sa.Boolean, nullable=False),
    sa.Column("request_id", sa.String(64), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("params", Json, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False, default=0),
    sa.Column("not_before", _when()),
    sa.Column("worker", sa.String(64)),
    sa.Column("lease_until", _when()),
    sa.Column("deadline", _when(), nullable=False),
    sa.Column("start_time", _when(), nullable=False),
    sa.Column("finish_time", _when()),
    sa.Column("message", sa.String(255)),
    sa.Column("lane", sa.String(36)),
    sa.Index("ix_operations_host_state", "host", "state"),
    sa.Index("ix_operations_state_deadline", "state", "deadline"),
)

operation_events = _table(
    "operation_events",
    _id(),
    sa.Column("operation_id", _BIG, sa.ForeignKey("operations.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("event", sa.String(64), nullable=False),
    sa.Column("start_time", _when(), nullable=False),
    sa.Column("finish_time", _when()),
    sa.Column("result", sa.String(16)),
    sa.Column("traceback", _long()),
    sa.Column("code", sa.String(64)),  # kind of the error: its class in words
    sa.Column("progress", Json),
)

services = _table(
    "zun_services",
    _id(),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("binary", sa.String(255), nullable=False),
    sa.Column("disabled", sa.Boolean, nullable=False),
    sa.Column("disabled_reason", sa.String(255)),
    sa.Column("forced_down", sa.Boolean, nullable=False),
    sa.Column("report_count", sa.Integer, nullable=False),
    sa.Column("last_seen_up", _when()),
    sa.Column("availability_zone", sa.String(255)),
    sa.Column("instance", sa.String(64)),  # the agent process that owns the host's operations now
    sa.Column("relay", sa.String(255)),  # host:port that proxies of sessions connect to; null: none
    sa.Column("fenced_after", sa.Integer),  # seconds of silence after which it has stopped; null: not promised
    sa.Column("created_at", _when(), nullable=False),
    sa.Column("updated_at", _when()),
    sa.UniqueConstraint("host", "binary"),
)

compute_nodes = _table(
    "compute_nodes",
    _id(),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("hostname", sa.String(255), nullable=False, unique=True),
    sa.Column("mem_total", sa.Integer, nullable=False),  # MiB
    sa.Column("mem_used", sa.Integer, nullable=False),
    sa.Column("cpus", sa.Integer, nullable=False),
    sa.Column("cpu_used", _real(), nullable=False),
    sa.Column("disk_total", sa.Integer, nullable=False),  # GiB
    sa.Column("disk_used", sa.Integer, nullable=False),
    sa.Column("disk_quota_supported", sa.Boolean, nullable=False),
    sa.Column("total_containers", sa.Integer, nullable=False),
    sa.Column("architecture", sa.String(32)),
    sa.Column("os_type", sa.String(32)),
    sa.Column("os", sa.String(255)),
    sa.Column("kernel_version", sa.String(128)),
    sa.Column("labels", Json),
    sa.Column("runtimes", Json),
    sa.Column("enable_cpu_pinning", sa.Boolean, nullable=False),
    sa.Column("numa_topology", Json),  # NUMA node -> CPUs that may be pinned
    sa.Column("capsules", sa.Boolean, nullable=False, default=False, server_default=sa.false()),  # does it take any?
    sa.Column("capsule_runtimes", Json),  # handlers its engine is known to have; null: not told
    sa.Column("disk_pressure", sa.Boolean, nullable=False, default=False, server_default=sa.false()),  # disk is full
    sa.Column("created_at", _when(), nullable=False),
    sa.Column("updated_at", _when()),
)

registries = _table(
    "registries",
    _id(),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("name", sa.String(255)),
    sa.Column("project_id", sa.String(255), nullable=False, index=True),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("domain", sa.String(255), nullable=False),
    sa.Column("username", sa.String(255)),
    sa.Column("password", _long()),  # encrypted
    sa.Column("created_at", _when(), nullable=False),
    sa.Column("updated_at", _when()),
)

images = _table(
    "images",
    _id(),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("project_id", sa.String(255), nullable=False, index=True),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("repo", sa.String(255), nullable=False),
    sa.Column("tag", sa.String(128), nullable=False),  # empty: none
    sa.Column("image_driver", sa.String(255), nullable=False),
    sa.Column("image_uuid", sa.String(36)),
    sa.Column("image_id", sa.String(255)),  # in the engine; null until it is there
    sa.Column("size", sa.BigInteger),  # bytes
    sa.Column("created_at", _when(), nullable=False),
    sa.Column("updated_at", _when()),
    sa.UniqueConstraint("host", "repo", "tag"),
)

node_images = _table(
    "node_images",  # images that nodes pulled for containers, and may remove
    _id(),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("driver", sa.String(32), nullable=False),
    sa.Column("reference", sa.String(384), nullable=False),  # in the engine; the id once the name has moved on
    sa.Column("image_id", sa.String(255), nullable=False),
    sa.Column("pulled_at", _when(), nullable=False),
    sa.Column("used_at", _when(), nullable=False),
    sa.UniqueConstraint("host", "reference"),
)

quotas = _table(
    "quotas",
    _id(),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("resource", sa.String(32), nullable=False),
    sa.Column("hard_limit", sa.Integer, nullable=False),
    sa.UniqueConstraint("project_id", "resource"),
)

quota_classes = _table(
    "quota_classes",
    _id(),
    sa.Column("class_name", sa.String(255), nullable=False),
    sa.Column("resource", sa.String(32), nullable=False),
    sa.Column("hard_limit", sa.Integer, nullable=False),
    sa.UniqueConstraint("class_name", "resource"),
)

quota_usages = _table(
    "quota_usages",
    sa.Column("project_id", sa.String(255), primary_key=True),
    sa.Column("containers", sa.Integer, nullable=False),
    sa.Column("cpu", sa.Integer, nullable=False),  # millicores
    sa.Column("memory", sa.Integer, nullable=False),  # MiB
    sa.Column("disk", sa.Integer, nullable=False),  # GiB
)

leases = _table(
    "leases",
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("owner", sa.String(64), nullable=False),
    sa.Column("until", _when(), nullable=False),
)

settings = _table(
    "settings",
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", _long(), nullable=False),
)

pinned_cpus = _table(
    "pinned_cpus",  # CPUs that a container has for itself; the key says that nobody else has them
    sa.Column("host", sa.String(255), primary_key=True),
    sa.Column("cpu", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("numa_node", sa.Integer, nullable=False),
    sa.Column("container_uuid", sa.String(36), nullable=False, index=True),
)

given_ports = _table(
    "given_ports",  # users' own ports, as they were before containers had them
    sa.Column("container_uuid", sa.String(36), primary_key=True),
    sa.Column("port_id", sa.String(36), primary_key=True),
    sa.Column("device_owner", sa.String(255), nullable=False),
    sa.Column("host_id", sa.String(255), nullable=False),
    sa.Column("mac", sa.String(32), nullable=False),
    sa.Index("ix_given_ports_port_id", "port_id", unique=True),
)

cinder_volumes = _table(
    "cinder_volumes",
    sa.Column("uuid", sa.String(36), primary_key=True),  # ours, in the volume's metadata
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("volume_id", sa.String(36), index=True),  # null until Cinder has answered
    sa.Column("created_at", _when(), nullable=False, index=True),
)

networks = _table(
    "networks",  # engine networks that administrators made ahead of use
    _id(),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("name", sa.String(255)),
    sa.Column("project_id", sa.String(255)),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("network_id", sa.String(255), nullable=False),  # in the engine
    sa.Column("neutron_net_id", sa.String(255), nullable=False, unique=True),
    sa.Column("created_at", _when(), nullable=False),
)

sessions = _table(
    "sessions",  # interactive ones, each asked for and opened once
    _id(),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("token_hash", sa.String(64), nullable=False, unique=True),  # SHA-256, hexadecimal
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("container_uuid", sa.String(36), nullable=False, index=True),
    sa.Column("capsule_uuid", sa.String(36), index=True),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("exec_id", sa.String(64)),
    sa.Column("command", Json),
    sa.Column("tty", sa.Boolean, nullable=False),
    sa.Column("stdin", sa.Boolean, nullable=False),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("request_id", sa.String(64), nullable=False),
    sa.Column("created_at", _when(), nullable=False),
    sa.Column("expires_at", _when(), nullable=False, index=True),  # unused until then
    sa.Column("opened_at", _when()),
    sa.Column("connected_at", _when()),
    sa.Column("ended_at", _when()),
)
