"""``zun-status upgrade check`` on our account in Keystone: it works, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import configure
from tests.support.keystone import ACCOUNT, Keystone
from tests.support.tcp_proxy import TcpProxy
from zun.cli.upgrade_check import Code, Result
from zun.cli.upgrade_check import keystone as check


def look(folder: Path, options: Mapping[str, Any]) -> Result:
    values = {name: value for name, value in {**ACCOUNT, **options}.items() if value is not None}
    return check(configure(folder, {f"keystone_authtoken.{name}": value for name, value in values.items()}))


@pytest.mark.usefixtures("testbed")
def test_all_is_well(tmp_path: Path) -> None:
    assert look(tmp_path, {}) == Result(Code.SUCCESS)


@pytest.mark.usefixtures("testbed")
@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ({"password": "wrong"}, Code.FAILURE, "refuses our own account"),
        ({"auth_type": None}, Code.FAILURE, "auth_type is not set"),
        ({"auth_url": "http://127.0.0.1:1/v3"}, Code.FAILURE, "Keystone is not available: Unable to establish"),
        ({"interface": "admin", "region_name": "nowhere"}, Code.FAILURE, "no admin endpoint of identity in region now"),
        ({"cafile": "/nonexistent"}, Code.FAILURE, "TLS files for Keystone cannot be used"),
        ({"www_authenticate_uri": None}, Code.WARNING, "www_authenticate_uri is not set"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, options: dict[str, Any], code: Code, text: str) -> None:
    found = look(tmp_path, options)
    assert found.code == code
    assert text in found.details


def test_an_account_that_is_no_service(tmp_path: Path, keystone: Keystone) -> None:
    project = keystone.project()
    admin = keystone.user(project, "admin")
    found = look(tmp_path, {"username": admin.name, "project_name": _name(keystone, project)})
    assert (found.code, "none of the roles service" in found.details) == (Code.WARNING, True)
    member = keystone.user(project, "member")
    found = look(tmp_path, {"username": member.name, "project_name": _name(keystone, project)})
    assert found.code in (Code.FAILURE, Code.WARNING)
    assert found.details


def _name(keystone: Keystone, project: str) -> str:
    return str(keystone.call("GET", f"/projects/{project}")["project"]["name"])


@pytest.mark.usefixtures("testbed")
def test_a_keystone_that_hangs_is_given_up(tmp_path: Path, keystone_proxy: TcpProxy) -> None:
    keystone_proxy.mode("hang")
    found = look(tmp_path, {"auth_url": f"{keystone_proxy.url}/v3", "timeout": 1})
    assert found.code == Code.FAILURE
    assert "Keystone is not available" in found.details
