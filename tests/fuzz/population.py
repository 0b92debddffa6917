"""A product that has been used: projects, containers in every status, capsules, registries, quotas, networks."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.wait import wait_until
from tests.support.walk import GHOST, Who, World, world
from tests.support.walk_requests import capsule
from zun.domain.container import Type
from zun.domain.lifecycle import Status

PROJECTS = ("ours", "theirs", "third")
OPTIONS: dict[str, dict[str, Any]] = {"api": {"stream_seconds": 0.05, "body_timeout": 3, "wait_interval": 0.05}}
_EACH = 2
"""Containers that run and capsules of each project."""
_AT_WORK = """SELECT count(*) FROM operations WHERE finish_time IS NULL AND NOT EXISTS (SELECT 1 FROM containers c
WHERE c.capsule_uuid = operations.container_uuid AND c.container_type = ? AND c.status = ?)"""
"""Operations that are not done; a create whose init container runs waits for that, as long as it may."""
_PASSING = frozenset({Status.CREATING, Status.DELETING, Status.DELETED, Status.REBUILDING})
"""Written into a record without the operation they announce, they would be an operation's that is lost."""


class Population:
    """What there is, and where; ``add`` makes it, again and again where requests delete it."""

    def __init__(self, made: World) -> None:
        self.world = made
        self.zun = made.zun
        self.members = {project: made.who(project) for project in PROJECTS}

    def add(self) -> None:
        """Containers in each status, capsules, registries, an image, a network, quotas."""
        made: list[str] = []
        for project, who in self.members.items():
            for number in range(_EACH):
                made.append(self._make(who, "/v1/containers?run=true", _container(f"{project}-{number}")))
                self._make(who, "/v1/capsules", {"template": capsule(f"{project}-capsule-{number}")})
            body = {"registry": {"domain": "registry.example.org", "name": "registry-0", "password": "x"}}
            assert self.world.send("POST", "/v1/registries", who, json=body).status_code == 201
            for name, path in (("quotas", who.project_id), ("quota_classes", "default")):
                limits = {"containers": -1, "cpu": -1, "memory": -1, "disk": -1}
                assert self.world.send("PUT", f"/v1/{name}/{path}", self.world.admin, json=limits).status_code == 200
        for status in Status:
            if status not in _PASSING:
                self.world.copy({"uuid": made[0]}, str(status))
        self.world.restore_ghost()
        self.world.make_image()
        self.world.set_network(there=True)
        self.settle()

    def _make(self, who: Who, path: str, body: dict[str, Any]) -> str:
        answer = self.world.send("POST", path, who, json=body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["uuid"])

    def settle(self) -> None:
        """Nothing is being made any more."""

        def made() -> bool:
            shown = self.world.get("/v1/containers?all_projects=true", self.world.admin)["containers"]
            return all(one["status"] != Status.CREATING for one in shown)

        wait_until(made, 120, "what was asked for is there")

    def idents(self) -> dict[str, list[str]]:
        """Values of path and query parameters that name something."""
        shown: dict[str, list[dict[str, Any]]] = {
            name: self.world.get(f"/v1/{path}", self.world.admin)[name]
            for name, path in (
                ("containers", "containers?all_projects=true&limit=200"), ("capsules", "capsules?all_projects=true"),
                ("registries", "registries?all_projects=true"), ("images", "images"), ("hosts", "hosts"),
            )
        }  # fmt: skip
        uuids = {name: [one["uuid"] for one in rows] for name, rows in shown.items()}
        return {
            "container_ident": uuids["containers"],
            "capsule_ident": uuids["capsules"],
            "registry_ident": uuids["registries"],
            "image_id": uuids["images"],
            "host_ident": [*uuids["hosts"], *(one["hostname"] for one in shown["hosts"])],
            "neutron_net_id": [self.world.network],
            "request_ident": [self.world.request_id],
            "project_id": [who.project_id for who in self.members.values()],
            "quota_class_name": ["default", "other"],
            "image": ["busybox"],
            "host": [GHOST],
            "binary": ["zun-compute"],
        }

    def places(self) -> dict[bytes, bytes]:
        """For the placeholders of fuzzed requests."""
        rows = self.world.get("/v1/containers?all_projects=true&limit=200", self.world.admin)["containers"]
        by_status = {one["status"]: one["uuid"] for one in rows}
        capsules = self.world.get("/v1/capsules", self.members["ours"])["capsules"]
        found = {
            "member": self.members["ours"].token, "admin": self.world.admin.token,
            "other": self.members["theirs"].token,
            "stopped": by_status[Status.STOPPED], "paused": by_status[Status.PAUSED], "error": by_status[Status.ERROR],
            "capsule": capsules[0]["uuid"],
        }  # fmt: skip
        return {f"@{name}@".encode(): value.encode() for name, value in found.items()}

    def lies(self) -> list[str]:
        """Projects whose usage is not what their containers and capsules count."""
        with self.world.database() as db:
            db.row_factory = sqlite3.Row
            counted: dict[str, Counter[str]] = {}
            for row in db.execute("SELECT * FROM containers WHERE counted"):
                amounts = counted.setdefault(row["project_id"], Counter())
                if row["container_type"] != "capsule":
                    amounts["containers"] += 1
                if row["capsule_uuid"] is None:
                    amounts.update(cpu=round(row["cpu"] * 1000), memory=row["memory"], disk=row["disk"])
            used = {row["project_id"]: dict(row) for row in db.execute("SELECT * FROM quota_usages")}
            waiting = db.execute(_AT_WORK, (Type.INIT, Status.RUNNING)).fetchone()[0]
        wrong = []
        for project in sorted(used.keys() | counted.keys()):
            told, there = used.get(project, {}), counted.get(project, {})
            for name in ("containers", "cpu", "memory", "disk"):
                if told.get(name, 0) != there.get(name, 0):
                    wrong.append(f"{project} uses {name} {told.get(name, 0)}, its rows count {there.get(name, 0)}")
        return wrong + ([f"{waiting} operations are not done"] if waiting else [])

    def write_idents(self, file: Path) -> None:
        """For the hooks of the schemathesis command."""
        file.write_text(json.dumps(self.idents()))


def _container(name: str) -> dict[str, Any]:
    return {"image": "busybox", "name": name, "cpu": 0.1, "memory": 16, "interactive": True}


@contextmanager
def population(folder: Path) -> Iterator[Population]:
    """A populated product, ended at the end."""
    with world(folder, OPTIONS) as made:
        found = Population(made)
        found.add()
        yield found
