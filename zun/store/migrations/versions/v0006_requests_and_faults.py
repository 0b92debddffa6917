"""Keys of requests that are sent again, and the kind of a step's error."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from zun.store.migrations.versions.v0001_initial import BIG, LONG, OPTIONS, WHEN

revision = "0006_requests_and_faults"
down_revision = "0005_sessions"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("operation_events", sa.Column("code", sa.String(length=64), nullable=True))
    op.create_table(
        "idempotency_keys",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("key_hash", sa.String(length=64), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=36), nullable=False),
        sa.Column("lease_until", WHEN, nullable=False),
        sa.Column("resource_uuid", sa.String(length=36), nullable=True),
        sa.Column("answer", LONG, nullable=True),
        sa.Column("created_at", WHEN, nullable=False),
        sa.Column("expires_at", WHEN, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_idempotency_keys")),
        sa.UniqueConstraint("key_hash", name=op.f("uq_idempotency_keys_key_hash")),
        **OPTIONS,
    )
    op.create_index(op.f("ix_idempotency_keys_expires_at"), "idempotency_keys", ["expires_at"])
