"""From a checked template to rows: names, sizes, policies, volumes, ports."""

from __future__ import annotations

import re
from datetime import datetime
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from zun.compute.capsules.spec import handler, hostname
from zun.domain.capsule import Entry, Mount, Template, Volume, member_name, rows, size
from zun.domain.container import Container, Type

NOW = datetime(2026, 1, 2, 3, 4, 5)


def made(template: Template, **more: Any) -> tuple[Container, list[Container]]:
    numbers = count()
    capsule, members = rows(
        template,
        project_id="p",
        user_id="u",
        new_uuid=lambda: f"uuid-{next(numbers)}",
        suffix=lambda: "beta-7",
        networks=[{"network_id": "n"}],
        now=NOW,
        **more,
    )
    return capsule, list(members)


@pytest.mark.parametrize(
    ("containers", "inits", "expected"),
    [
        ([(0, 0)], [], (0.0, 0)),
        ([(0.5, 100), (0.25, 28)], [], (0.75, 128)),
        ([(0.5, 100)], [(2, 50), (1, 300)], (2, 300)),
        ([(1, 100), (1, 100)], [(1.5, 150)], (2, 200)),
        ([(0.1, 0), (0.2, 0)], [], (0.3, 0)),
    ],
)
def test_size_is_the_sum_or_the_largest_init_container(
    containers: list[tuple[float, int]], inits: list[tuple[float, int]], expected: tuple[float, int]
) -> None:
    def entries(sizes: list[tuple[float, int]]) -> list[Entry]:
        return [Entry("i", cpu=cpu, memory=memory) for cpu, memory in sizes]

    assert size(entries(containers), entries(inits)) == expected


@pytest.mark.parametrize(
    ("word", "capsule", "init"),
    [
        ("Always", ("always", "0"), ("on-failure", "10")),
        ("OnFailure", ("on-failure", "0"), ("on-failure", "0")),
        ("Never", ("no", "0"), ("no", "0")),
    ],
)
def test_restart_policies(word: str, capsule: tuple[str, str], init: tuple[str, str]) -> None:
    row, members = made(Template([Entry("a")], [Entry("b")], restart=word))
    kinds = {one.container_type: one.restart_policy for one in members}
    as_policy = {"Name": capsule[0], "MaximumRetryCount": capsule[1]}
    assert row.restart_policy == as_policy
    assert kinds[Type.MEMBER] == as_policy  # whatever init containers have
    assert kinds[Type.INIT] == {"Name": init[0], "MaximumRetryCount": init[1]}


def test_members_come_in_order_init_containers_first() -> None:
    capsule, members = made(Template([Entry("a"), Entry("b")], [Entry("c")], name="web"))
    assert [(one.image, one.container_type) for one in members] == [
        ("c", Type.INIT),
        ("a", Type.MEMBER),
        ("b", Type.MEMBER),
    ]
    assert {one.capsule_uuid for one in members} == {capsule.uuid}
    assert {one.name for one in members} == {"capsule-web-beta-7"}
    assert capsule.container_type == Type.CAPSULE


def test_a_capsule_without_a_name_gives_its_uuid_to_its_members() -> None:
    capsule, (member,) = made(Template([Entry("a")]))
    assert capsule.name == ""
    assert member.name == f"capsule-{capsule.uuid}-beta-7"


def test_names_of_members_fit_their_column() -> None:
    name = member_name("x" * 255, "epsilon-24")
    assert len(name) == 255
    assert re.fullmatch(r"capsule-x+-epsilon-24", name)


def test_volumes_and_ports() -> None:
    entries = [
        Entry("a", ports=["80/tcp"], mounts=[Mount("data", "/a", True), Mount("nobody", "/b")]),
        Entry("b", ports=["80/tcp", "53/udp"]),
    ]
    capsule, (first, second) = made(Template(entries, volumes=[Volume("data", "mapping")]))
    assert capsule.exposed_ports == {"80/tcp": {}, "53/udp": {}}
    assert first.exposed_ports == {"80/tcp": {}}
    assert first.volume_mounts == [{"mapping": "mapping", "destination": "/a", "read_only": True}]
    assert second.volume_mounts == []


def test_what_a_capsule_counts() -> None:
    capsule, members = made(Template([Entry("a", cpu=1, memory=64), Entry("b", cpu=0.5)], [Entry("c")]))
    assert capsule.quota == {"containers": 0, "cpu": 1500, "memory": 64, "disk": 0}
    assert [one.quota for one in members] == [{"containers": 1}] * 3


@pytest.mark.parametrize(
    ("asked", "option", "expected"),
    [
        (None, "runc", ""),
        (None, "kata", "kata"),
        ("runc", "kata", ""),
        ("kata-qemu", "runc", "kata-qemu"),
        (None, "", ""),
    ],
)
def test_the_runtime_handler(asked: str | None, option: str, expected: str) -> None:
    capsule, _ = made(Template([Entry("a")], runtime=asked))
    assert handler(SimpleNamespace(container_runtime=option), capsule) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("web", "web"), ("Web.One_2", "web-one-2"), ("..", None), ("x" * 80, "x" * 63), ("a" * 62 + ".b", "a" * 62)],
)
def test_the_host_name_is_one_that_hosts_can_have(name: str, expected: str | None) -> None:
    capsule, _ = made(Template([Entry("a")], name=name))
    assert hostname(capsule) == (expected or f"capsule-{capsule.uuid[:8]}")
