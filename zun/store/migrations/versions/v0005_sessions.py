"""Interactive sessions, and where each node's relay of them is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from zun.store.migrations.versions.v0001_initial import BIG, LONG, OPTIONS, WHEN

revision = "0005_sessions"
down_revision = "0004_given_ports"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("zun_services", sa.Column("relay", sa.String(length=255), nullable=True))
    op.create_table(
        "sessions",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("container_uuid", sa.String(length=36), nullable=False),
        sa.Column("capsule_uuid", sa.String(length=36), nullable=True),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("exec_id", sa.String(length=64), nullable=True),
        sa.Column("command", LONG, nullable=True),
        sa.Column("tty", sa.Boolean(), nullable=False),
        sa.Column("stdin", sa.Boolean(), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("created_at", WHEN, nullable=False),
        sa.Column("expires_at", WHEN, nullable=False),
        sa.Column("opened_at", WHEN, nullable=True),
        sa.Column("connected_at", WHEN, nullable=True),
        sa.Column("ended_at", WHEN, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("uuid", name=op.f("uq_sessions_uuid")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_sessions_token_hash")),
        **OPTIONS,
    )
    for column in ("container_uuid", "capsule_uuid", "expires_at"):
        op.create_index(op.f(f"ix_sessions_{column}"), "sessions", [column])
