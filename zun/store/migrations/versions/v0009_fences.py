"""Nodes that promise to stop their containers when they are cut off."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009_fences"
down_revision = "0008_node_images"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("zun_services", sa.Column("fenced_after", sa.Integer(), nullable=True))
