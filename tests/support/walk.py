"""The contract's routes as data, and a running product on which each of them can be asked in any version and status.

The product is a process with the simulated engine. Statuses that no engine shows on demand are written into its
database; so are tokens, which are then as good as those of the command line.
"""

from __future__ import annotations

import http.server
import json
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from tests.support.live import Live, live
from tests.support.wait import wait_until
from tests.support.walk_requests import FRESH, REAL, capsule, request_of
from zun.identity.local import hash_of

DATA = Path(__file__).parents[1] / "contract" / "data"
LOWEST, HIGHEST = 1, 40
GHOST = "ghost"
"""A host that is only a record: services are changed and deleted on it."""
OPTIONS = {
    "DEFAULT": {"sync_container_state_interval": 3600},  # statuses written by a test stay
    "quota": {"containers": -1, "cpu": -1, "memory": -1, "disk": -1},
}


@dataclass(frozen=True)
class Contract:
    """One row of ``routes.json``: an operation in one range of versions."""

    operation: str
    method: str
    path: str
    versions: tuple[int, int] | None
    """First and last minor version; None: versions are not looked at."""
    rule: str | None
    success: int
    statuses: frozenset[str] | None
    """None: every status permits it."""
    host_up: str | bool | None
    """Whether the operation needs the node; a text says when."""
    answer: str | list[str]
    """``null``, ``empty``, ``text``, ``list``, or the names of the object's members."""
    location: bool
    also: tuple[str, ...]
    query: Mapping[str, str]
    public: bool

    @property
    def name(self) -> str:
        return self.operation if self.versions is None else f"{self.operation}-1.{self.versions[0]}"


def _contract(row: Mapping[str, Any]) -> Contract:
    first, last = (int(text.partition(".")[2]) for text in row["versions"] or ("1.0", "1.0"))
    parameter, _, value = row.get("query", "").partition("=")
    return Contract(
        operation=row["operation"],
        method=row["method"],
        path=row["path"],
        versions=(first, last) if row["versions"] else None,
        rule=row["rule"],
        success=row["success"],
        statuses=frozenset(row["statuses"]) if row["statuses"] else None,
        host_up=row["host_up"],
        answer=row["answer"],
        location=row.get("location", False),
        also=tuple(row.get("also", ())),
        query={parameter: value} if parameter else {},
        public=row.get("public", False),
    )


ROUTES = [_contract(row) for row in json.loads((DATA / "routes.json").read_text())]
ASKED = [row for row in ROUTES if not row.public]
RULES: dict[str, str] = json.loads((DATA / "rules.json").read_text())


@dataclass(frozen=True)
class Who:
    """Somebody with a token."""

    token: str
    project_id: str


class World:
    """A product with one container, capsule, registry and image of project ``ours``."""

    def __init__(self, zun: Live) -> None:
        self.zun = zun
        self.http = httpx.Client(base_url=zun.url, timeout=60)
        self._projects: dict[str, str] = {}
        self.admin = self.who("admin", role="admin")
        self.member = self.who("ours")
        self.stranger = self.who("theirs")
        self.networker = self.who("networks", role="admin")
        """An administrator whose project has no containers, so that its network can be removed."""
        self.host: dict[str, str] = self.get("/v1/hosts", self.admin)["hosts"][0]
        self._add_ghost()
        body = {"image": "busybox", "name": "real", "cpu": 0.1, "memory": 16, "interactive": True}
        self.real = self._made("/v1/containers?run=true", body)
        self.request_id = self._request_id
        self.network = "none-yet"
        """The administrator's, once it was made."""
        self.capsule = self._made("/v1/capsules", {"template": capsule("capsule")})
        self.exec_id = self._exec()
        self.registry = self.make_registry()
        self.image = self.make_image()

    def close(self) -> None:
        self.http.close()

    # -- who asks ---------------------------------------------------------------------------------

    def who(self, project: str, user: str | None = None, role: str = "member") -> Who:
        """A token of project ``project``, made on demand."""
        text, now = secrets.token_urlsafe(16), "2026-01-01 00:00:00.000000"
        project_id = self._projects.setdefault(project, uuid4().hex)
        row = (str(uuid4()), hash_of(text), project_id, project, uuid4().hex, user or f"{project}-{role}", role, now)
        with self.database() as db:
            db.execute("INSERT OR IGNORE INTO local_projects (id, name, created_at) VALUES (?, ?, ?)", (
                project_id, f"walk-{project}", now,
            ))  # fmt: skip
            db.execute(
                "INSERT INTO local_tokens (uuid, token_hash, project_id, project_name, user_id, user_name, role,"
                " created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )
        return Who(text, project_id)

    # -- requests ---------------------------------------------------------------------------------

    def send(
        self, method: str, path: str, who: Who | None, version: str = "1.40", headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> httpx.Response:  # fmt: skip
        """One request; ``who`` None sends no token."""
        sent = {"OpenStack-API-Version": f"container {version}", **(headers or {})}
        if who is not None:
            sent["X-Auth-Token"] = who.token
        return self.http.request(method, path, headers=sent, **more)

    def ask(
        self, row: Contract, minor: int, who: Who, *, form: str = "uuid", status: str | None = None,
        targets: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None, body: Mapping[str, Any] | None = None,
    ) -> httpx.Response:  # fmt: skip
        """The operation with a request that is good in version 1.``minor``, on an object that permits it (in
        ``status``, when given); the object is named by ``form``. ``query`` and ``body`` add to the request."""
        known = dict(targets) if targets is not None else self.targets(row, form, status)
        asked_query, asked_body = request_of(row.operation, minor, self)
        path = row.path.format(**{name: known.get(name, "x") for name in _names(row.path)})
        params = {**row.query, **asked_query, **(query or {})}
        sent = None if asked_body is None and body is None else {**(asked_body or {}), **(body or {})}
        return self.send(row.method, path, who, f"1.{minor}", headers, params=params, json=sent)

    def get(self, path: str, who: Who) -> Any:
        answer = self.send("GET", path, who)
        assert answer.status_code == 200, answer.text
        return answer.json()

    # -- what is asked about ------------------------------------------------------------------------

    def targets(self, row: Contract, form: str = "uuid", status: str | None = None) -> dict[str, str]:
        """A value for every parameter of the path; an object of its own where the operation changes it."""
        if row.operation.startswith("network."):
            self.set_network(there=row.operation == "network.delete")
        found = {
            "project_id": self.member.project_id, "quota_class_name": "default", "image": "busybox",
            "neutron_net_id": self.network, "request_ident": self.request_id, "image_id": self.image,
            "host_ident": self.host["uuid" if form == "uuid" else "hostname"],
        }  # fmt: skip
        if "{container_ident}" in row.path:
            wanted = status or min(row.statuses or {"Running"}, key=lambda one: (one != "Running", one))
            if row.operation in REAL:
                self.set_status(self.real["uuid"], wanted)
                one = self.real
            else:
                one = self.copy(self.real, wanted, networks=row.operation != "container.network_attach")
            found["container_ident"] = one[form]
        if "{capsule_ident}" in row.path:
            one = self.copy(self.capsule, status) if row.operation in FRESH else self.capsule
            found["capsule_ident"] = one[form]
        if "{registry_ident}" in row.path:
            one = self.make_registry() if row.operation in FRESH else self.registry
            found["registry_ident"] = one[form]
        if "{image_id}" in row.path and row.operation in FRESH:
            found["image_id"] = self.make_image()
        return found

    def set_status(self, uuid: str, status: str) -> None:
        with self.database() as db:
            db.execute("UPDATE containers SET status = ?, task_state = NULL WHERE uuid = ?", (status, uuid))

    def copy(self, of: Mapping[str, str], status: str | None = None, *, networks: bool = True) -> dict[str, str]:
        """The record of another container or capsule; the engine has none, so nothing but the record answers."""
        made = {"uuid": str(uuid4()), "name": f"copy-{secrets.token_hex(6)}"}
        with self.database() as db:
            db.row_factory = sqlite3.Row
            row = dict(db.execute("SELECT * FROM containers WHERE uuid = ?", (of["uuid"],)).fetchone())
            row |= {**made, "name_key": made["name"], "counted": False, "task_state": None}
            row["status"] = status or row["status"]
            if not networks:
                row |= {"addresses": None, "requested_networks": None}
            del row["id"]
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            db.execute(f"INSERT INTO containers ({names}) VALUES ({marks})", tuple(row.values()))
        return made

    def set_network(self, *, there: bool) -> None:
        """Whether administrators made the network's record ahead of use."""
        with self.database() as db:
            db.execute("DELETE FROM networks")
        if there:
            body = {"name": "made", "neutron_net_id": "default"}
            answer = self.send("POST", "/v1/networks", self.networker, json=body)
            assert answer.status_code == 200, answer.text
            self.network = str(answer.json()["neutron_net_id"])

    def make_registry(self) -> dict[str, str]:
        body = {"registry": {"domain": "registry.example.org", "name": f"registry-{secrets.token_hex(6)}"}}
        answer = self.send("POST", "/v1/registries", self.member, json=body)
        assert answer.status_code == 201, answer.text
        found: dict[str, str] = answer.json()["registry"]
        return found

    def make_image(self) -> str:
        body = {"repo": f"app-{secrets.token_hex(6)}", "host": self.host["hostname"]}
        answer = self.send("POST", "/v1/images", self.admin, json=body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["uuid"])

    def real_addresses(self) -> dict[str, list[dict[str, Any]]]:
        """Of the container that runs: network -> its addresses there."""
        shown = self.get(f"/v1/containers/{self.real['uuid']}", self.member)
        found: dict[str, list[dict[str, Any]]] = shown["addresses"]
        return found

    def volume(self) -> str:
        """The record of a volume of ``ours``; its id."""
        uuid = str(uuid4())
        row = (uuid, f"volume-{uuid[:8]}", self.member.project_id, "2026-01-01 00:00:00.000000")
        with self.database() as db:
            db.execute("INSERT INTO local_volumes (uuid, name, project_id, created_at) VALUES (?, ?, ?, ?)", row)
        return uuid

    def _made(self, path: str, body: Mapping[str, Any]) -> dict[str, str]:
        answer = self.send("POST", path, self.member, json=body)
        assert answer.status_code == 202, answer.text
        self._request_id = answer.headers["x-openstack-request-id"]
        where = f"{path.partition('?')[0]}/{answer.json()['uuid']}"
        wait_until(lambda: self.get(where, self.member)["status"] == "Running", 60, f"{where} runs")
        found: dict[str, str] = self.get(where, self.member)
        return found

    def _exec(self) -> str:
        query = {"command": "sh", "run": "false", "interactive": "true"}
        answer = self.send("POST", f"/v1/containers/{self.real['uuid']}/execute", self.member, params=query)
        return str(answer.json()["exec_id"])

    def _add_ghost(self) -> None:
        with self.database() as db:
            db.row_factory = sqlite3.Row
            row = dict(db.execute("SELECT * FROM zun_services").fetchone())
            row |= {"host": GHOST, "last_seen_up": "2026-01-01 00:00:00.000000"}
            del row["id"]
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            db.execute(f"INSERT OR REPLACE INTO zun_services ({names}) VALUES ({marks})", tuple(row.values()))

    def restore_ghost(self) -> None:
        """After a test deleted the service."""
        self._add_ghost()

    # -- records ------------------------------------------------------------------------------------

    @contextmanager
    def database(self) -> Iterator[sqlite3.Connection]:
        """A transaction on the product's database, beside the product."""
        path = self.zun.state.root / "zun.sqlite"
        with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
            yield connection

    def records(self, project_id: str) -> dict[str, list[Any]]:
        """Every row that belongs to a project, in every table that knows projects."""
        found: dict[str, list[Any]] = {}
        with self.database() as db:
            tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for table in tables:
                columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
                if "project_id" in columns:
                    query = f"SELECT * FROM {table} WHERE project_id = ?"  # a table of the schema
                    found[table] = db.execute(query, (project_id,)).fetchall()
        return found

    def set_rules(self, rules: Mapping[str, str]) -> None:
        """The operator's policy file; none for no rules. The product looks at it within a second or so."""
        file = self.zun.state.root / "policy.yaml"
        file.write_text("".join(f'"{name}": "{text}"\n' for name, text in rules.items()))


class _Catalogue(http.server.BaseHTTPRequestHandler):
    """As much of a registry as the search asks for."""

    def do_GET(self) -> None:
        body = b'{"repositories": ["busybox", "team/busybox"]}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@contextmanager
def world(folder: Path, options: Mapping[str, Mapping[str, Any]] | None = None) -> Iterator[World]:
    """A running product and what it has; ended at the end. ``options`` beside those of this module."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Catalogue)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        registry = {"docker": {"default_registry": f"127.0.0.1:{server.server_port}"}}
        with live(folder, {**OPTIONS, **registry, **(options or {})}) as zun, closing(World(zun)) as made:
            yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def error(answer: httpx.Response) -> tuple[int, str, str]:
    """Status, code without its prefix, and title of a refusal."""
    (found,) = answer.json()["errors"]
    assert found["status"] == answer.status_code
    return found["status"], found["code"].removeprefix("container."), found["title"]


def _names(path: str) -> list[str]:
    return [part.partition("}")[0] for part in path.split("{")[1:]]
