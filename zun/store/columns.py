"""Types of columns, and how a table is made on each kind of database. Used by ``tables.py`` only."""

from __future__ import annotations

from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import TypeDecorator

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_MARIADB = ("mysql", "mariadb")
_OPTIONS: dict[str, Any] = {
    # Binary: names and ids are compared exactly, as on the other databases.
    f"{dialect}_{name}": value
    for dialect in _MARIADB
    for name, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"))
}


def table(name: str, *parts: sa.schema.SchemaItem) -> sa.Table:
    return sa.Table(name, metadata, *parts)


def tell_options() -> None:
    """Give the tables MariaDB's options, which loads its dialect: for who makes tables there, or writes revisions."""
    for one in metadata.tables.values():
        one.dialect_kwargs.update(_OPTIONS)


@sa.event.listens_for(metadata, "before_create")
def _before_create(_: sa.MetaData, connection: sa.Connection, **__: Any) -> None:
    if connection.dialect.name in _MARIADB:
        tell_options()


class LongText(sa.Text):
    """MEDIUMTEXT on MariaDB, named here: loading SQLAlchemy's dialects of servers would be a fifth of each start."""


class Moment(sa.DateTime):
    """With microseconds on MariaDB, too."""


@compiles(LongText, *_MARIADB)
def _long_text_of_mariadb(*_: Any, **__: Any) -> str:
    return "MEDIUMTEXT"


@compiles(Moment, *_MARIADB)
def _moment_of_mariadb(*_: Any, **__: Any) -> str:
    return "DATETIME(6)"


def long_text() -> Any:
    """Text as long as a request may be: MariaDB's own TEXT ends at 64 KiB."""
    return LongText()


def real() -> Any:
    """Double precision: MariaDB's own FLOAT does not equal what was written."""
    return sa.Float().with_variant(sa.Double(), *_MARIADB)


class Json(TypeDecorator[Any]):
    """A JSON value kept as text; list answers embed the text as it is (no parse on the hot path)."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        return LongText() if dialect.name in _MARIADB else self.impl_instance

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> str | None:
        return None if value is None else orjson.dumps(value).decode()

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        return None if value is None else orjson.loads(value)


def when() -> Any:
    return Moment()


def row_id() -> sa.Column[int]:
    return sa.Column("id", BIG, primary_key=True, autoincrement=True)
