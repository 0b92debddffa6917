"""What the cloud's services need remembered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from zun.store.migrations.versions.v0001_initial import BIG, LONG, OPTIONS, WHEN

revision = "0002_cloud"
down_revision = "0001_initial"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("containers", sa.Column("counted", sa.Boolean(), server_default=sa.true(), nullable=False))
    op.create_table(
        "given_ports",
        sa.Column("container_uuid", sa.String(length=36), nullable=False),
        sa.Column("port_id", sa.String(length=36), nullable=False),
        sa.Column("device_owner", sa.String(length=255), nullable=False),
        sa.Column("host_id", sa.String(length=255), nullable=False),
        sa.Column("mac", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("container_uuid", "port_id", name=op.f("pk_given_ports")),
        **OPTIONS,
    )
    op.create_table(
        "cinder_volumes",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("volume_id", sa.String(length=36), nullable=True),
        sa.Column("created_at", WHEN, nullable=False),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_cinder_volumes")),
        **OPTIONS,
    )
    op.create_index(op.f("ix_cinder_volumes_volume_id"), "cinder_volumes", ["volume_id"])
    op.create_index(op.f("ix_cinder_volumes_created_at"), "cinder_volumes", ["created_at"])
    op.add_column("operations", sa.Column("lane", sa.String(length=36), nullable=True))
    op.add_column("containers", sa.Column("image_uuid", sa.String(length=36), nullable=True))
    _images()
    _pinned_cpus()
    _networks()


def _pinned_cpus() -> None:
    op.add_column("compute_nodes", sa.Column("numa_topology", LONG, nullable=True))
    op.create_table(
        "pinned_cpus",
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("cpu", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("numa_node", sa.Integer(), nullable=False),
        sa.Column("container_uuid", sa.String(length=36), nullable=False),
        sa.PrimaryKeyConstraint("host", "cpu", name=op.f("pk_pinned_cpus")),
        **OPTIONS,
    )
    op.create_index(op.f("ix_pinned_cpus_container_uuid"), "pinned_cpus", ["container_uuid"])


def _images() -> None:
    op.create_table(
        "images",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("repo", sa.String(length=255), nullable=False),
        sa.Column("tag", sa.String(length=128), nullable=False),
        sa.Column("image_driver", sa.String(length=255), nullable=False),
        sa.Column("image_uuid", sa.String(length=36), nullable=True),
        sa.Column("image_id", sa.String(length=255), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=True),
        sa.Column("created_at", WHEN, nullable=False),
        sa.Column("updated_at", WHEN, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_images")),
        sa.UniqueConstraint("uuid", name=op.f("uq_images_uuid")),
        sa.UniqueConstraint("host", "repo", "tag", name=op.f("uq_images_host_repo_tag")),
        **OPTIONS,
    )
    op.create_index(op.f("ix_images_project_id"), "images", ["project_id"])


def _networks() -> None:
    op.create_table(
        "networks",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("project_id", sa.String(length=255), nullable=True),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("network_id", sa.String(length=255), nullable=False),
        sa.Column("neutron_net_id", sa.String(length=255), nullable=False),
        sa.Column("created_at", WHEN, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_networks")),
        sa.UniqueConstraint("uuid", name=op.f("uq_networks_uuid")),
        sa.UniqueConstraint("neutron_net_id", name=op.f("uq_networks_neutron_net_id")),
        **OPTIONS,
    )
