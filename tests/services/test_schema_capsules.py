"""Revision 0003 on every kind of database: rows of before are containers, nodes of before take no capsules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from tests.services.test_schema import KINDS, _look
from tests.services.test_schema_with_data import _fill
from zun.domain.container import Type
from zun.store import migrate
from zun.store.tables import compute_nodes, containers


@KINDS
async def test_rows_of_before_are_containers(kind: str, new_url: Callable[[str], str]) -> None:
    url = new_url(kind)
    migrate._run_command(url, "upgrade", "0002_cloud")
    await _look(url, _fill)
    migrate.upgrade(url)

    def facts(connection: sa.Connection) -> list[tuple[Any, ...]]:
        c = containers.c
        columns = (c.container_type, c.capsule_uuid, c.restarts, c.back_off, c.restart_at, c.exit_code)
        return [tuple(row) for row in connection.execute(sa.select(*columns))]

    assert await _look(url, facts) == [(Type.CONTAINER, None, 0, 0, None, None)] * 2
    n = compute_nodes.c
    query = sa.select(n.capsules, n.capsule_runtimes, n.disk_pressure)
    rows = await _look(url, lambda connection: [tuple(row) for row in connection.execute(query)])
    assert rows == [(False, None, False)] * 2
