"""``[database]/connection``: the original's URLs are understood, and a driver that is missing is one sentence."""

from __future__ import annotations

import pytest

from zun.store import address
from zun.store.database import Database, DatabaseUnavailable


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("mysql+pymysql://zun:p%40s@db/zun?charset=utf8", "mysql+asyncmy://zun:p%40s@db/zun"),
        ("mysql://zun@db/zun?charset=utf8mb4&ssl_ca=/ca.pem", "mysql+asyncmy://zun@db/zun?ssl_ca=%2Fca.pem"),
        ("mysql+mysqldb://zun@db:3307/zun", "mysql+asyncmy://zun@db:3307/zun"),
        ("mariadb+pymysql://zun@db/zun", "mariadb+asyncmy://zun@db/zun"),
        ("postgresql://zun@db/zun", "postgresql+psycopg://zun@db/zun"),
        ("postgresql+psycopg2://zun@db/zun?sslmode=require", "postgresql+psycopg://zun@db/zun?sslmode=require"),
        ("sqlite:////var/lib/zun/zun.sqlite", "sqlite+aiosqlite:////var/lib/zun/zun.sqlite"),
    ],
)
def test_urls(given: str, used: str) -> None:
    assert address.async_url(given).render_as_string(hide_password=False) == used


@pytest.mark.parametrize(
    ("url", "driver", "extra"), [("mysql://h/d", "asyncmy", "mysql"), ("postgresql://h/d", "psycopg", "postgresql")]
)
def test_a_driver_that_is_not_installed_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, url: str, driver: str, extra: str
) -> None:
    assert address.missing_driver(url) is None
    monkeypatch.setattr(address, "find_spec", lambda name: None)
    with pytest.raises(DatabaseUnavailable) as caught:
        Database(url)
    assert caught.value.message == (
        f"[database]/connection names {url.partition(':')[0]}, whose driver {driver} is not installed; "
        f"install it with: pip install 'zun-ng[{extra}]'."
    )


def test_options_of_the_url_are_kept() -> None:
    url = address.async_url("postgresql://h/d?options=-c%20work_mem%3D1MB")
    assert str(address.connect_args(url)["options"]).startswith("-c work_mem=1MB -c lock_timeout=")
