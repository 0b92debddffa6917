"""Capsules and their members are rows of ``containers``; nodes say whether they take any."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from zun.store.migrations.versions.v0001_initial import LONG, WHEN

revision = "0003_capsules"
down_revision = "0002_cloud"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in (
        sa.Column("container_type", sa.String(length=32), server_default="container", nullable=False),
        sa.Column("capsule_uuid", sa.String(length=36), nullable=True),
        sa.Column("annotations", LONG, nullable=True),
        sa.Column("volume_mounts", LONG, nullable=True),
        sa.Column("restarts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("back_off", sa.Integer(), server_default="0", nullable=False),
        sa.Column("restart_at", WHEN, nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
    ):
        op.add_column("containers", column)
    op.create_index(op.f("ix_containers_capsule_uuid"), "containers", ["capsule_uuid"])
    op.add_column("compute_nodes", sa.Column("capsules", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("compute_nodes", sa.Column("capsule_runtimes", LONG, nullable=True))
