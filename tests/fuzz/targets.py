"""What fuzzed requests are about: a container that runs, renewed now and then, and what they made, deleted again."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import httpx

from tests.support.wait import wait_until

_TOGETHER = 20
"""Things that are deleted in one request."""
_PATIENCE = 120.0


class Targets:
    """``places``: what stands for the placeholders of requests."""

    def __init__(self, port: int, places: dict[bytes, bytes]) -> None:
        self.port, self.places = port, places
        self._made: dict[str, list[str]] = {"containers": [], "capsules": []}
        self._running = ""
        token = places[b"@admin@"].decode()
        headers = {"X-Auth-Token": token, "OpenStack-API-Version": "container 1.40"}
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=120)

    @staticmethod
    def read(file: Path) -> Targets:
        """As ``write`` left them."""
        found = json.loads(file.read_text())
        return Targets(found.pop("port"), {name.encode(): text.encode() for name, text in found.items()})

    @staticmethod
    def write(file: Path, port: int, places: dict[bytes, bytes]) -> None:
        """For other processes."""
        file.write_text(json.dumps({"port": port, **{name.decode(): text.decode() for name, text in places.items()}}))

    def renew(self) -> None:
        """Another container that runs instead of the last one: what was written into that one goes with it."""
        if self._running:
            self._made["containers"].append(self._running)
        name = f"fuzzed-{secrets.token_hex(6)}"
        body = {"image": "busybox", "name": name, "cpu": 0.1, "memory": 16, "interactive": True}
        member = {"X-Auth-Token": self.places[b"@member@"].decode()}
        answer = self._http.post("/v1/containers?run=true", json=body, headers=member)
        assert answer.status_code == 202, answer.text
        self._running = answer.json()["uuid"]
        path = f"/v1/containers/{self._running}"
        wait_until(lambda: self._http.get(path).json()["status"] == "Running", _PATIENCE, "the container runs")
        self.places |= {b"@running@": self._running.encode(), b"@name@": name.encode()}

    def made(self, label: str, body: bytes) -> None:
        """Something that a request made, by the body of its answer."""
        where = {"create": "containers", "capsule": "capsules"}.get(label)
        if where is None:
            return
        self._made[where].append(json.loads(body)["uuid"])
        if len(self._made[where]) >= _TOGETHER:
            self._made[where] = self._delete(where, self._made[where])

    def _delete(self, where: str, idents: list[str]) -> list[str]:
        """Those that are still to be deleted."""
        left: list[str] = []
        for start in range(0, len(idents), 50):
            some = idents[start : start + 50]
            params: dict[str, Any] = {"ids": some} | ({"force": "true"} if where == "containers" else {})
            answer = self._http.delete(f"/v1/{where}", params=params)
            assert answer.status_code == 200, answer.text
            left += [one["id"] for one in answer.json()["results"] if one["status"] not in (204, 404)]
        return left

    def close(self) -> None:
        """Everything that was made is deleted."""
        self._made["containers"].append(self._running)
        for where in self._made:

            def gone(where: str = where) -> bool:
                self._made[where] = self._delete(where, self._made[where])
                return not self._made[where]

            wait_until(gone, _PATIENCE, f"{where} that were made are deleted")
        self._http.close()
