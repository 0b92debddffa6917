"""Tables of the embedded identity, placement, network and volume services. Imported by ``tables.py`` only."""

from __future__ import annotations

import sqlalchemy as sa

from zun.store.columns import Json, real, row_id, table, when

local_tokens = table(
    "local_tokens",
    row_id(),
    sa.Column("uuid", sa.String(36), nullable=False, unique=True),
    sa.Column("token_hash", sa.String(64), nullable=False, unique=True),  # SHA-256, hexadecimal
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("project_name", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("user_name", sa.String(255), nullable=False),
    sa.Column("role", sa.String(32), nullable=False),
    sa.Column("created_at", when(), nullable=False),
    sa.Column("expires_at", when()),
    sa.Column("revoked_at", when()),
)

local_projects = table(
    "local_projects",
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("name", sa.String(255), nullable=False, unique=True),
    sa.Column("created_at", when(), nullable=False),
)

local_providers = table(
    "local_providers",
    sa.Column("uuid", sa.String(36), primary_key=True),
    sa.Column("name", sa.String(255), nullable=False, unique=True),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("traits", Json, nullable=False),
    sa.Column("aggregates", Json, nullable=False),
)

local_inventories = table(
    "local_inventories",
    sa.Column("provider_uuid", sa.String(36), sa.ForeignKey("local_providers.uuid"), primary_key=True),
    sa.Column("resource_class", sa.String(64), primary_key=True),
    sa.Column("total", sa.Integer, nullable=False),
    sa.Column("reserved", sa.Integer, nullable=False),
    sa.Column("allocation_ratio", real(), nullable=False),
    sa.Column("max_unit", sa.Integer, nullable=False),
    sa.Column("used", sa.Integer, nullable=False),  # sum of the allocations, kept in their transaction
)

local_allocations = table(
    "local_allocations",
    sa.Column("consumer", sa.String(36), primary_key=True),
    sa.Column("resource_class", sa.String(64), primary_key=True),
    sa.Column("provider_uuid", sa.String(36), sa.ForeignKey("local_providers.uuid"), nullable=False, index=True),
    sa.Column("amount", sa.Integer, nullable=False),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
)

local_networks = table(
    "local_networks",
    sa.Column("uuid", sa.String(36), primary_key=True),
    sa.Column("subnet_uuid", sa.String(36), nullable=False),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("shared", sa.Boolean, nullable=False),
    sa.Column("cidr", sa.String(64), nullable=False, unique=True),
    sa.Column("gateway", sa.String(64), nullable=False),
    sa.Column("is_default", sa.Boolean, nullable=False),
    sa.Column("last_used_at", when()),
    sa.Column("created_at", when(), nullable=False),
    sa.UniqueConstraint("project_id", "name"),
)

local_ports = table(
    "local_ports",
    sa.Column("uuid", sa.String(36), primary_key=True),
    sa.Column("network_uuid", sa.String(36), sa.ForeignKey("local_networks.uuid"), nullable=False),
    sa.Column("device_id", sa.String(36), index=True),
    sa.Column("position", sa.Integer, nullable=False),  # order of the container's interfaces
    sa.Column("number", sa.Integer, nullable=False),  # of the address within the subnet
    sa.Column("address", sa.String(64), nullable=False),
    sa.Column("mac", sa.String(32), nullable=False),
    sa.UniqueConstraint("network_uuid", "number"),
    sa.UniqueConstraint("device_id", "position"),
)

local_volumes = table(
    "local_volumes",
    sa.Column("uuid", sa.String(36), primary_key=True),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("size", sa.Integer),  # GiB; null = a plain directory
    sa.Column("created_at", when(), nullable=False),
    sa.Index("ix_local_volumes_project_id_name", "project_id", "name"),
)
