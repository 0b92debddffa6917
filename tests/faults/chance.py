"""A product with real Docker that chance drives, and a simple model of what its containers have to be.

The model knows a container's status, or that it cannot know it: where a fault was on, or nobody waited for the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from tests.support.cloud import SETTLED, Cloud
from tests.support.engine import Engine
from tests.support.engine_proxy import ProxyThread
from tests.support.product import Product
from tests.support.wait import wait_until
from zun import conf as configuration
from zun.cli import audit

DEADLINE = 180.0
"""Seconds until all is true again after the last fault; the machine may be busy."""
LOCKED = 1.5
"""Seconds for which a database is locked."""
_ANSWER = 120.0
"""Seconds in which the API answers anything."""

PERMITS = {
    "start": {"Stopped", "Created", "Error"},
    "stop": {"Running"},
    "pause": {"Running"},
    "unpause": {"Paused"},
    "kill": {"Running"},
    "reboot": {"Running", "Stopped", "Created", "Error"},
    "rebuild": {"Running", "Stopped", "Created", "Error"},
}
"""Verb -> statuses in which it is accepted (202); else it is refused (409)."""
AFTER = {
    "start": "Running",
    "stop": "Stopped",
    "pause": "Paused",
    "unpause": "Running",
    "kill": "Stopped",
    "reboot": "Running",
}
_LIST_WORDS = {"exited": "Stopped", "running": "Running", "paused": "Paused", "created": "Created"}
_HELD = {
    "allocations": "SELECT DISTINCT consumer FROM local_allocations",
    "ports": "SELECT DISTINCT device_id FROM local_ports",
}
DELETABLE = {"Error", "Stopped", "Created"}
FAULTS = ("engine refuses", "engine hangs", "networks hang", "database locked")
_REFUSALS = frozenset({404, 409, 503, 504})
"""Of a product whose parts fail; never 500."""


def second_network(product: Product) -> str:
    """One more network, which every project may use; its id."""
    ident, pool = str(uuid4()), IPv4Network(product._subnet.cidr)
    subnet = list(pool.subnets(new_prefix=pool.prefixlen + 2))[-1]
    now = time.strftime("%Y-%m-%d %H:%M:%S.000000", time.gmtime())
    values = (ident, str(uuid4()), "second", "", True, str(subnet), str(subnet[1]), False, now)
    with contextlib.closing(_database(product)) as connection, connection:
        connection.execute(
            "INSERT INTO local_networks (uuid, subnet_uuid, name, project_id, shared, cidr, gateway, is_default,"
            " created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )
    return ident


def _database(product: Product) -> sqlite3.Connection:
    return sqlite3.connect(product.state.root / "zun.sqlite", timeout=60)


class Driven:
    """One product for many sequences; each ends with ``settle`` and ``clear``."""

    def __init__(self, folder: Path, engine: Engine, image: str) -> None:
        self.product = Product(folder / "zun", engine)
        self.proxy = ProxyThread(folder / "docker.sock")
        self.product.conf(
            DEFAULT={"sync_container_state_interval": "5", "capsule_driver": "docker"},
            docker={"api_url": f"unix://{self.proxy.path}", "execute_timeout": "60"},
            quota={"containers": "100", "cpu": "100"},
            compute={
                "reaper_interval": "1",
                "sweep_interval": "1",
                "abandoned_volume_seconds": "30",
                "orphan_grace_seconds": "1",
            },
        )
        self.image = image
        self._lock: threading.Thread | None = None
        self.failing = self.hanging = False
        self.sound, self.began = 0, time.monotonic()
        self.model: dict[str, str | None] = {}
        self.cloud = self._connect()
        self.network = second_network(self.product)

    def _connect(self) -> Cloud:
        """A client for the process of now."""
        self.product.start()
        cloud = Cloud(self.product, self.image)
        cloud.http.timeout = httpx.Timeout(_ANSWER)
        return cloud

    def close(self) -> None:
        try:
            self.end_faults()
            self.product.stop()
        finally:
            self.proxy.stop()
        assert not self.product.remains(), self.product.remains()

    # -- what users do -----------------------------------------------------------------------------

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """An answer in time; never one that says the product is wrong. Keeps the client if the process was changed."""
        answer = self.cloud.http.request(method, f"/v1{path}", **options)
        assert answer.status_code != 500, f"{method} {path}: {answer.text}\n{self.product.log()[-3000:]}"
        assert answer.status_code < 500 or answer.status_code in _REFUSALS, f"{method} {path}: {answer.text}"
        return answer

    def create(self, *, run: bool, mount: bool, heal: bool, wait: bool) -> None:
        body: dict[str, Any] = {"image_pull_policy": "ifnotpresent", "auto_heal": heal}
        if mount:
            body["mounts"] = [{"size": "1", "destination": "/data"}]
        answer = self.cloud.ask(run=run, **body)
        assert answer.status_code == 202 or (self.failing and answer.status_code in _REFUSALS), answer.text
        if answer.status_code == 202:
            self._known(answer.json()["uuid"], "Running" if run else "Created", wait)

    def act(self, uuid: str, verb: str, *, wait: bool) -> None:
        before = self.model[uuid]
        answer = self.ask("POST", f"/containers/{uuid}/{verb}")
        accepted = answer.status_code == 202
        if before is not None and not self.failing:
            assert accepted == (before in PERMITS[verb]), f"{verb} of {before}: {answer.status_code} {answer.text}"
        if accepted:
            rebuilt = {"Running": "Running", None: None}.get(before, "Created")
            # Of one that failed, what it becomes says what had failed: the model learns it.
            after = None if before in (None, "Error") else AFTER.get(verb, rebuilt)
            self._known(uuid, after, wait)

    def delete(self, uuid: str, how: str, *, wait: bool) -> None:
        before = self.model[uuid]
        query = {"plain": {}, "force": {"force": "true"}, "stop": {"stop": "true"}}[how]
        answer = self.ask("DELETE", f"/containers/{uuid}", params=query)
        accepted = answer.status_code == 204
        if before is not None and not self.failing:
            allowed = {
                "plain": before in DELETABLE,
                "force": before != "Paused",
                "stop": before in DELETABLE | {"Running"},
            }[how]
            assert accepted == allowed, f"delete {how} of {before}: {answer.status_code} {answer.text}"
        if accepted:
            self.model[uuid] = None
            if wait and not self.failing:
                wait_until(lambda: self.cloud.show(uuid) is None, DEADLINE, f"{uuid} is gone\n{self._tail()}")
                del self.model[uuid]

    def execute(self, uuid: str) -> None:
        if self.hanging:
            return  # it would wait for as long as a call of the engine may take
        answer = self.ask("POST", f"/containers/{uuid}/execute", params={"command": "echo told", "run": "true"})
        before = self.model[uuid]
        if before is None or self.failing:
            return
        assert (answer.status_code == 200) == (before == "Running"), f"execute in {before}: {answer.text}"
        if answer.status_code == 200:
            assert answer.json()["output"].strip() == "told"

    def update(self, uuid: str, memory: int) -> None:
        if self.hanging:
            return
        answer = self.ask("PATCH", f"/containers/{uuid}", json={"memory": memory})
        before = self.model[uuid]
        if before not in (None, "Error") and not self.failing:
            assert answer.status_code == 200, f"update of {before}: {answer.text}"

    def network_attach(self, uuid: str, *, away: bool) -> None:
        """Or take it away."""
        verb, before = "network_detach" if away else "network_attach", self.model[uuid]
        answer = self.ask("POST", f"/containers/{uuid}/{verb}", params={"network": self.network})
        if before is not None and not self.failing and answer.status_code < 300:
            self._known(uuid, before, wait=True)

    def _known(self, uuid: str, status: str | None, wait: bool) -> None:
        """What the container has to become; waited for where nothing stands in the way."""
        self.model[uuid] = None
        if wait and not self.failing:
            self.model[uuid] = self._settled(uuid)
            assert status in (None, self.model[uuid]), f"{uuid} is {self.model[uuid]}, not {status}\n{self._tail()}"

    def _settled(self, uuid: str) -> str | None:
        def reached() -> str | None:
            shown = self.cloud.show(uuid)
            if shown is None:
                return "gone"
            return shown["status"] if shown["status"] in SETTLED and shown["task_state"] is None else None

        return wait_until(reached, DEADLINE, f"{uuid} comes to rest: {self.cloud.show(uuid)}\n{self._tail()}")

    # -- what happens to it ------------------------------------------------------------------------

    def behind(self, uuid: str, what: str) -> None:
        """Somebody uses Docker itself: ``kill``, ``pause``, or ``remove``."""
        engine = self.product.engine
        with contextlib.suppress(httpx.HTTPStatusError):  # not there, or not in that state
            if what == "remove":
                engine.remove(f"zun-{uuid}")
            else:
                engine.post(f"/containers/zun-{uuid}/{what}")
        self.model[uuid] = None

    def fault(self, name: str) -> None:
        """From now on, until ``end_faults``; a locked database opens by itself."""
        if name == "database locked":
            self._lock = threading.Thread(target=self._locked)
            self._lock.start()
        elif name == "networks hang":
            self.proxy.hang("(POST|DELETE|GET) .*/networks")
        else:
            self.proxy.mode({"engine refuses": "refuse", "engine hangs": "hang"}[name])
            self.proxy.cut(".*")
        self.failing, self.hanging = True, name == "engine hangs"

    def _locked(self) -> None:
        """As by another process that writes for long."""
        with contextlib.closing(_database(self.product)) as connection:
            connection.isolation_level = None
            connection.execute("BEGIN IMMEDIATE")
            threading.Event().wait(LOCKED)
            connection.execute("ROLLBACK")

    def end_faults(self) -> None:
        if self._lock is not None:
            self._lock.join()
            self._lock = None
        self.proxy.mode("pass")
        self.proxy.cut(".*")
        self.failing = self.hanging = False

    def restart(self, *, kill: bool) -> None:
        """Whatever is at work; after it all works again."""
        self.end_faults()
        if kill:
            self.product.kill()
        else:
            self.product.terminate()
        self.cloud = self._connect()

    # -- what has to be true -----------------------------------------------------------------------

    def settle(self) -> None:
        """No leak, no double, no lie, every operation ended; and the model agrees."""
        self.end_faults()
        self._wait(self.wrong)
        rows = {row["uuid"]: row["status"] for row in self.cloud.get("/containers?all_projects=true")["containers"]}
        for uuid, status in self.model.items():
            assert status is None or rows.get(uuid) == status, f"{uuid} is {rows.get(uuid)}, not {status}"
        self._wait(self.left_over)
        self.sound += 1
        print(f"{self.sound} sound at {time.monotonic() - self.began:.0f} s", flush=True)

    def _wait(self, wrong: Callable[[], list[str]]) -> None:
        """Until nothing is wrong; some follows an operation's end a moment later."""
        last: list[str] = []

        def nothing() -> bool:
            last[:] = wrong()
            return not last

        try:
            wait_until(nothing, DEADLINE, "all is true")
        except AssertionError as error:
            raise AssertionError(f"{error}: {last}\n{self._tail()}") from None

    def left_over(self) -> list[str]:
        """What the audit finds, or cannot tell."""
        conf = configuration.load(files=[str(self.product.state.conf_file)])
        report = asyncio.run(audit.audit(conf, heal=False, grace=timedelta(0), scope="all"))
        return [str(one) for one in (*report.findings, *report.failed.items())]

    def wrong(self) -> list[str]:
        """Where records, engine, allocations, ports, volumes, quota and operations do not agree."""
        query, found = self.product.query, list[str]()
        rows = self.cloud.get("/containers?all_projects=true")["containers"]
        engine = [(item["Names"][0].removeprefix("/zun-"), item["State"]) for item in self.product.engine_containers()]
        states = dict(engine)
        if len(states) != len(engine) or states.keys() - {row["uuid"] for row in rows}:
            found.append(f"the engine has {engine}")
        for row in rows:
            seen = _LIST_WORDS.get(states.get(row["uuid"], ""), "Error")
            if row["status"] != seen or row["task_state"]:
                found.append(f"{row['uuid']} is shown {row['status']}/{row['task_state']}, and is {seen}")
            answer = self.ask("GET", f"/containers/{row['uuid']}/container_actions")
            if answer.status_code != 200:
                found.append(f"{row['uuid']} is gone meanwhile: {answer.status_code}")
                continue
            open_ones = [one for one in answer.json()["containerActions"] if one["finish_time"] is None]
            found += [f"action {one['action']} of {row['uuid']} is open" for one in open_ones]
        # One that was lost keeps what it holds: it can be made again. One whose making failed holds nothing.
        made = {row["uuid"] for row in query("SELECT uuid FROM containers WHERE container_id IS NOT NULL")}
        for what, statement in _HELD.items():
            held = {row[0] for row in query(statement)}
            if held != made:
                found.append(f"{what} are held by {sorted(held)}, made are {sorted(made)}")
        counted = sum(row[0] for row in query("SELECT containers FROM quota_usages"))
        if counted != len(rows):
            found.append(f"quota counts {counted}, records have {len(rows)}")
        waiting = query("SELECT kind, container_uuid FROM operations WHERE finish_time IS NULL")
        return found + [f"operation {one['kind']} of {one['container_uuid']} is not done" for one in waiting]

    def clear(self) -> None:
        """Nothing is left for the next sequence."""
        self.model.clear()
        self.product.clear(DEADLINE)

    def _tail(self) -> str:
        lines = [line for line in self.product.log().splitlines() if "container.show status=200" not in line]
        return "\n".join(lines[-60:])
