"""The table of status events, an outbox: written with each status change, told later, cleaned by age."""

from __future__ import annotations

import sqlalchemy as sa

from zun.store.columns import BIG, long_text, row_id, table, when

status_events = table(
    "status_events",
    row_id(),
    sa.Column("number", BIG, unique=True),  # null until it is given one, after its transaction
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("container_uuid", sa.String(36), nullable=False),
    sa.Column("container_type", sa.String(32), nullable=False),
    sa.Column("capsule_uuid", sa.String(36)),
    sa.Column("name", sa.String(255), nullable=False),
    sa.Column("project_id", sa.String(255), nullable=False),
    sa.Column("user_id", sa.String(255), nullable=False),
    sa.Column("status", sa.String(20)),
    sa.Column("previous_status", sa.String(20)),
    sa.Column("status_reason", long_text()),
    sa.Column("created_at", when(), nullable=False),
    sa.Index("ix_status_events_project_id_number", "project_id", "number"),
)
