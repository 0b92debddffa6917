"""Status events, for those who listen to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from zun.store.migrations.versions.v0001_initial import BIG, LONG, OPTIONS, WHEN

revision = "0007_status_events"
down_revision = "0006_requests_and_faults"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "status_events",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("number", BIG, nullable=True),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("container_uuid", sa.String(length=36), nullable=False),
        sa.Column("container_type", sa.String(length=32), nullable=False),
        sa.Column("capsule_uuid", sa.String(length=36), nullable=True),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=True),
        sa.Column("previous_status", sa.String(length=20), nullable=True),
        sa.Column("status_reason", LONG, nullable=True),
        sa.Column("created_at", WHEN, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_status_events")),
        sa.UniqueConstraint("number", name=op.f("uq_status_events_number")),
        **OPTIONS,
    )
    op.create_index("ix_status_events_project_id_number", "status_events", ["project_id", "number"])
