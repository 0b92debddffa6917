"""Database servers of the tests' own: a MariaDB and a PostgreSQL in temporary folders, on free ports, run as the users
their packages made (as whoever runs the tests, where that is not root). Nothing of them is left after ``remove``.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from tests.support.ports import free_port
from tests.support.wait import wait_until
from zun.store.address import async_url

_START_SECONDS = 120.0
_SECRET = "p@ss/w+rd%: "
"""Everything that has to be quoted in a URL."""
_QUOTED = _SECRET.replace("%", "%%")  # for the drivers


def _program(*candidates: str) -> str:
    """The first that exists. A machine without fails the test: nothing is skipped silently."""
    for name in candidates:
        found = shutil.which(name)
        if found:
            return found
    pytest.fail(
        f"{candidates[0]} is not installed; `make test` installs it (packages mariadb-server-core, postgresql)."
    )


def _user(*names: str) -> pwd.struct_passwd:
    """The first that exists: a package without its daemon's set-up makes no user."""
    return next(user for name in names for user in pwd.getpwall() if user.pw_name == name)


@dataclass
class Server(ABC):
    """One server; ``start``, ``stop`` and ``start`` again keep its data and its port."""

    name: ClassVar[str]
    system_user: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]

    folder: Path = field(init=False)
    port: int = field(init=False)
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"zun-{self.name}-", dir="/tmp"))
        self.port = free_port()
        self.who: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = _user(self.system_user, "nobody")
            self.who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(self.folder, user.pw_uid, user.pw_gid)

    @abstractmethod
    def make(self) -> None:
        """The empty data folder."""

    @abstractmethod
    def command(self) -> list[str]:
        """How the server is run in the foreground."""

    @abstractmethod
    def root_url(self) -> str:
        """For the administration of the server."""

    @abstractmethod
    def url(self, database: str) -> str:
        """``[database]/connection`` as an operator writes it."""

    @abstractmethod
    def set_up(self) -> None:
        """The operator's account, once the server runs."""

    def run(self, *command: str) -> None:
        done = subprocess.run(
            command, cwd=self.folder, env=self._environment(), capture_output=True, timeout=120, check=False, **self.who
        )
        assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C.UTF-8", "TMPDIR": str(self.folder)}

    def start(self) -> None:
        """Run it until it answers."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), cwd=self.folder, env=self._environment(), stdout=log, stderr=log, **self.who
            )

        told = ""

        def answers() -> bool:
            nonlocal told
            assert self.process is not None
            assert self.process.poll() is None, f"{self.name} ended:\n{self.log()}"
            try:
                self.sql("SELECT 1")
            except (sa.exc.OperationalError, sa.exc.InterfaceError) as error:
                told = str(error)
                return False
            return True

        try:
            wait_until(answers, _START_SECONDS, f"{self.name} answers on port {self.port}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {told}\n{self.log()}") from None

    def stop(self, number: signal.Signals | None = None) -> None:
        """End it and wait; ``number`` SIGKILL for a crash."""
        if self.process is None:
            return
        self.process.send_signal(number or self.stop_signal)
        try:
            self.process.wait(90)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(60)
        self.process = None

    def freeze(self) -> None:
        """It keeps its connections and says nothing more."""
        for one in self._family():
            one.suspend()

    def thaw(self) -> None:
        """The end of ``freeze``."""
        for one in self._family():
            one.resume()

    def _family(self) -> list[psutil.Process]:
        assert self.process is not None
        parent = psutil.Process(self.process.pid)
        return [parent, *parent.children(recursive=True)]

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-3000:]

    def sql(self, *statements: str, url: str | None = None) -> list[tuple[Any, ...]]:
        """Run as the administrator; the rows of the last statement."""

        async def run() -> list[tuple[Any, ...]]:
            engine = create_async_engine(
                async_url(url or self.root_url()), poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT"
            )
            rows: list[tuple[Any, ...]] = []
            try:
                async with engine.connect() as connection:
                    for statement in statements:
                        result = await connection.exec_driver_sql(statement)
                        rows = [tuple(row) for row in result] if result.returns_rows else []
            finally:
                await engine.dispose()
            return rows

        with ThreadPoolExecutor(1) as other:  # a loop may run in this thread
            return other.submit(lambda: asyncio.run(run())).result()

    def create_database(self, name: str) -> str:
        """An empty database; its URL."""
        self.sql(f"CREATE DATABASE {name}{self.database_options}")
        return self.url(name)

    database_options: ClassVar[str] = ""


class MariaDb(Server):
    """As Debian packages it."""

    name = "mariadb"
    system_user = "mysql"
    stop_signal = signal.SIGTERM
    database_options = " CHARACTER SET latin1"
    """As unfriendly as an operator may make it: the tables say themselves what they need."""

    def make(self) -> None:
        install = _program("mariadb-install-db")
        self.run(
            install,
            "--no-defaults",
            f"--datadir={self.folder}/data",
            "--skip-test-db",
            "--auth-root-authentication-method=normal",
        )

    def command(self) -> list[str]:
        return [
            _program("mariadbd", "/usr/sbin/mariadbd"),
            "--no-defaults",
            f"--datadir={self.folder}/data",
            f"--socket={self.folder}/socket",
            f"--pid-file={self.folder}/pid",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--innodb-buffer-pool-size=64M",
            "--innodb-flush-log-at-trx-commit=0",
            "--skip-log-bin",
            "--skip-name-resolve",
            "--sql-mode=",  # the product has to ask for what it needs
        ]

    def root_url(self) -> str:
        return f"mysql://root@localhost/mysql?unix_socket={self.folder}/socket"

    def url(self, database: str) -> str:
        url = sa.URL.create("mysql+pymysql", "zun", _SECRET, "127.0.0.1", self.port, database, {"charset": "utf8"})
        return url.render_as_string(hide_password=False)

    def set_up(self) -> None:
        self.sql(f"CREATE USER zun IDENTIFIED BY '{_QUOTED}'", "GRANT ALL ON *.* TO zun")


class PostgreSql(Server):
    """As Debian packages it."""

    name = "postgresql"
    system_user = "postgres"
    stop_signal = signal.SIGINT  # does not wait for clients

    def make(self) -> None:
        initdb = _program("initdb", *self._installed("initdb"))
        self.run(
            initdb,
            f"--pgdata={self.folder}/data",
            "--auth=trust",
            "--username=postgres",
            "--no-sync",
            "--encoding=UTF8",
        )

    def command(self) -> list[str]:
        return [
            _program("postgres", *self._installed("postgres")),
            "-D",
            f"{self.folder}/data",
            "-k",
            str(self.folder),
            "-p",
            str(self.port),
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "fsync=off",
            "-c",
            "default_transaction_isolation=serializable",  # the product has to ask for what it needs
        ]

    @staticmethod
    def _installed(program: str) -> list[str]:
        """Debian keeps the programs of each version apart, the newest is taken."""
        return [str(path) for path in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"), reverse=True)]

    def root_url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}&port={self.port}"

    def url(self, database: str) -> str:
        url = sa.URL.create("postgresql", "zun", _SECRET, "127.0.0.1", self.port, database)
        return url.render_as_string(hide_password=False)

    def set_up(self) -> None:
        self.sql(f"CREATE ROLE zun LOGIN PASSWORD '{_QUOTED}'")

    def create_database(self, name: str) -> str:
        self.sql(f"CREATE DATABASE {name} OWNER zun TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8'")
        return self.url(name)


def started(kind: Callable[[], Server]) -> Server:
    """A running server with the account of the URLs; the caller calls ``remove``."""
    server = kind()
    try:
        server.make()
        server.start()
        server.set_up()
    except BaseException:
        server.remove()
        raise
    return server
