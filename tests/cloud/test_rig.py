"""The rig itself: what the fixtures of cloud tests promise."""

from __future__ import annotations

import pytest

from tests.support import testbed as rig
from tests.support.testbed import Testbed
from tests.support.testbed_project import Project
from tests.support.testbed_stores import CloudDatabase, CloudVhost, ctl


def test_a_testbed_that_is_not_up_is_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rig.PORTS, "Neutron", 1)
    with pytest.raises(AssertionError, match=r"testbed is not up \(Neutron \(127.0.0.1:1\)\): `make testbed-up`"):
        Testbed()


def test_a_project_has_a_user_and_a_network_and_leaves_nothing(testbed: Testbed) -> None:
    project = Project(testbed).use_network()
    assert {role["name"] for role in project.account.details["roles"]} >= {"member", "reader"}
    port = project.neutron("POST", "/ports", json={"port": {"network_id": project.network_id}})["port"]
    volume = {"volume": {"size": 1, "name": project.name}}
    made = project.account.call("volumev3", "POST", "/volumes", json=volume)["volume"]
    assert testbed.port(port["id"])
    project.remove()
    assert testbed.port(port["id"]) is None
    assert testbed.volume(made["id"]) is None
    for kind in ("networks", "subnets", "security-groups"):
        assert not project.listed(kind)
    assert testbed.admin.ask("identity", "GET", f"/projects/{project.id}").status_code == 404


def test_databases_and_virtual_hosts_come_and_go(testbed: Testbed) -> None:
    database, vhost = CloudDatabase("zun_rig_test"), CloudVhost("zun_rig_test")
    database.create()
    vhost.create()
    try:
        assert database.query("SELECT %s AS one", 1) == [{"one": 1}]
        assert vhost.queues() == {}
    finally:
        database.drop()
        vhost.drop()
    assert "zun_rig_test" not in ctl("list_vhosts")
