"""Containers as tests of the queries write and read them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from zun.domain.container import Container
from zun.store import containers
from zun.store.containers import Page
from zun.store.database import Database

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901)
MINUTE = timedelta(minutes=1)
PROJECT = "blue"


def container(name: str = "one", **fields: Any) -> Container:
    values = {
        "project_id": PROJECT,
        "user_id": "ada",
        "image": "busybox",
        "image_driver": "docker",
        "status": "Running",
    }
    return Container(**{"uuid": str(uuid4()), "name": name, "created_at": NOW, **values, **fields})


async def put(db: Database, *rows: Container) -> None:
    async with db.write() as connection:
        for row in rows:
            await containers.insert(connection, row)


async def names(db: Database, **wanted: Any) -> list[str]:
    async with db.read() as connection:
        return [row["name"] for row in await containers.page(connection, Page(**{"limit": 100, **wanted}))]
