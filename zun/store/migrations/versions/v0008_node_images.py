"""Images that nodes pulled themselves, and hosts whose disk is full."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from zun.store.migrations.versions.v0001_initial import BIG, OPTIONS, WHEN

revision = "0008_node_images"
down_revision = "0007_status_events"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "node_images",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("driver", sa.String(length=32), nullable=False),
        sa.Column("reference", sa.String(length=384), nullable=False),
        sa.Column("image_id", sa.String(length=255), nullable=False),
        sa.Column("pulled_at", WHEN, nullable=False),
        sa.Column("used_at", WHEN, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_node_images")),
        sa.UniqueConstraint("host", "reference", name=op.f("uq_node_images_host_reference")),
        **OPTIONS,
    )
    op.add_column("compute_nodes", sa.Column("disk_pressure", sa.Boolean(), server_default=sa.false(), nullable=False))
