"""A user's port is one container's at most."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004_given_ports"
down_revision = "0003_capsules"
branch_labels = None
depends_on = None

ports = sa.table("given_ports", sa.column("container_uuid"), sa.column("port_id"))


def upgrade() -> None:
    connection = op.get_bind()
    kept: set[str] = set()
    for row in connection.execute(sa.select(ports.c.container_uuid, ports.c.port_id).order_by(*ports.c)).all():
        if row.port_id in kept:  # two took it in the same moment; Neutron knows one of them only
            mine = (ports.c.container_uuid == row.container_uuid) & (ports.c.port_id == row.port_id)
            connection.execute(ports.delete().where(mine))
        kept.add(row.port_id)
    op.create_index(op.f("ix_given_ports_port_id"), "given_ports", ["port_id"], unique=True)
