"""Databases in the testbed's MariaDB and virtual hosts in its RabbitMQ, made for one product and dropped with it."""

from __future__ import annotations

import asyncio
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from tests.support.testbed import FOLDER, HOST, PASSWORD, PORTS
from zun.store.address import async_url

USER = "openstack"
_RABBITMQCTL = "/usr/lib/rabbitmq/bin/rabbitmqctl"


class CloudDatabase:
    """A database of its own; ``url`` is what ``[database]/connection`` takes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.url = self._url(name)

    @staticmethod
    def _url(name: str) -> str:
        url = sa.URL.create("mysql+pymysql", USER, PASSWORD, HOST, PORTS["MariaDB"], name, {"charset": "utf8mb4"})
        return url.render_as_string(hide_password=False)

    def create(self) -> None:
        _run(self._url("mysql"), f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")

    def drop(self) -> None:
        """A second call is success."""
        _run(self._url("mysql"), f"DROP DATABASE IF EXISTS {self.name}")

    def query(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        """Rows by column name; ``%s`` marks parameters."""
        return _run(self.url, statement, parameters)


def _run(url: str, statement: str, parameters: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
    async def run() -> list[dict[str, Any]]:
        engine = create_async_engine(async_url(url), poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT")
        try:
            async with engine.connect() as connection:
                result = await connection.exec_driver_sql(statement, parameters or None)
                return [dict(row) for row in result.mappings()] if result.returns_rows else []
        finally:
            await engine.dispose()

    with ThreadPoolExecutor(1) as other:  # a loop may run in this thread
        return other.submit(lambda: asyncio.run(run())).result()


class CloudVhost:
    """A virtual host of its own in RabbitMQ: exchanges and queues of products side by side do not mix."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.url = f"rabbit://{USER}:{PASSWORD}@{HOST}:{PORTS['RabbitMQ']}/{name}"

    def create(self) -> None:
        ctl("add_vhost", self.name)
        ctl("set_permissions", "-p", self.name, USER, ".*", ".*", ".*")

    def drop(self) -> None:
        """With its queues; a second call is success."""
        if self.name in ctl("list_vhosts", "--no-table-headers").split():
            ctl("delete_vhost", self.name)

    def queues(self) -> dict[str, int]:
        """Queue -> messages in it."""
        lines = ctl("list_queues", "-p", self.name, "--no-table-headers", "name", "messages").splitlines()
        return {name: int(count) for name, count in (line.split("\t") for line in lines if line)}


def ctl(*arguments: str) -> str:
    """``rabbitmqctl`` on the testbed's broker."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))}
    home = FOLDER / "rabbitmq"
    done = subprocess.run(
        [_RABBITMQCTL, "--quiet", "-n", f"testbed-{PORTS['RabbitMQ']}@localhost", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=kept | {"HOME": str(home), "ERL_EPMD_ADDRESS": HOST, "LANG": "C.UTF-8"},
        cwd=home,
        check=False,
    )
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout
