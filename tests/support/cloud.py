"""One user's view of a product in the words of the scenarios: create, wait, show, actions; what is held outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from tests.support.product import Product
from tests.support.wait import wait_until

SLEEP = ["sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait"]
"""Runs until told to end, and then ends at once (a bare ``sleep`` as first process ignores TERM)."""
SETTLED = frozenset({"Running", "Stopped", "Created", "Paused", "Error", "Dead", "Unknown"})


class Cloud:
    """Blocking; ``token`` None is the admin's. ``image`` is used where a create names none."""

    def __init__(self, product: Product, image: str, token: str | None = None, version: str = "1.40") -> None:
        self.product = product
        self.image = image
        self.http = product.http(token, version)

    # -- requests -----------------------------------------------------------------------------------

    def post(self, path: str, status: int = 202, **options: Any) -> httpx.Response:
        """POST below /v1 that has to answer ``status``."""
        answer = self.http.post(f"/v1{path}", **options)
        assert answer.status_code == status, f"{answer.status_code} {answer.text}"
        return answer

    def ask(self, *, run: bool = True, **body: Any) -> httpx.Response:
        """POST a container and give the answer as it is; ``sleep`` for a thousand seconds unless told otherwise."""
        body = {"image": self.image, "command": SLEEP, "cpu": 0.1, "memory": 32} | body
        return self.http.post("/v1/containers", params={"run": str(run).lower()}, json=body)

    def create(self, *, run: bool = True, **body: Any) -> dict[str, Any]:
        """A container accepted by the API (202)."""
        answer = self.ask(run=run, **body)
        assert answer.status_code == 202, f"{answer.status_code} {answer.text}"
        created: dict[str, Any] = answer.json()
        return created

    def running(self, **body: Any) -> dict[str, Any]:
        """A container that runs."""
        return self.wait(self.create(**body)["uuid"], "Running")

    def begun(self, uuid: str, program: str = "sleep 1000") -> str:
        """``uuid``, once its script has come to run ``program``: what stands before that is done, as a trap; the
        container is Running earlier."""

        def there() -> bool:
            return program in [row[-1] for row in self.get(f"/containers/{uuid}/top")["Processes"]]

        wait_until(there, 60, f"{program} runs in {uuid}")
        return uuid

    def show(self, uuid: str) -> dict[str, Any] | None:
        """The container, None when it is gone."""
        answer = self.http.get(f"/v1/containers/{uuid}")
        if answer.status_code == 404:
            return None
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        return shown

    def wait(self, uuid: str, *statuses: str, timeout: float = 60.0) -> dict[str, Any]:
        """The container once its status is one of ``statuses`` and no task is at work."""

        def reached() -> dict[str, Any] | None:
            shown = self.show(uuid)
            assert shown is not None, f"{uuid} is gone while waiting for {statuses}"
            return shown if shown["status"] in statuses and shown["task_state"] is None else None

        found = wait_until(reached, timeout, f"{uuid} becomes {statuses}, is {self.show(uuid)}")
        assert found is not None
        return found

    def wait_gone(self, uuid: str, timeout: float = 60.0) -> None:
        wait_until(lambda: self.show(uuid) is None, timeout, f"{uuid} is gone, is {self.show(uuid)}")

    def delete(self, uuid: str, status: int = 204, **query: str) -> httpx.Response:
        answer = self.http.delete(f"/v1/containers/{uuid}", params=query)
        assert answer.status_code == status, f"{answer.status_code} {answer.text}"
        return answer

    def act(self, uuid: str, action: str, status: int = 202, **query: str) -> httpx.Response:
        return self.post(f"/containers/{uuid}/{action}", status, params=query)

    def actions(self, uuid: str) -> list[dict[str, Any]]:
        """Newest first."""
        answer = self.http.get(f"/v1/containers/{uuid}/container_actions")
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["containerActions"]
        return found

    def action(self, uuid: str, request_id: str) -> dict[str, Any]:
        answer = self.http.get(f"/v1/containers/{uuid}/container_actions/{request_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def get(self, path: str) -> Any:
        answer = self.http.get(f"/v1{path}")
        assert answer.status_code == 200, f"{answer.status_code} {answer.text}"
        return answer.json()

    # -- what is held outside the record -------------------------------------------------------------

    def engine(self, uuid: str) -> dict[str, Any] | None:
        """The engine's own view (``docker inspect``)."""
        return self.product.engine.container(uuid)

    def allocation(self, uuid: str) -> Mapping[str, int]:
        """Resource class -> amount, as the embedded Placement holds it."""
        rows = self.product.query("SELECT resource_class, amount FROM local_allocations WHERE consumer = ?", uuid)
        return {row["resource_class"]: row["amount"] for row in rows}

    def ports(self, uuid: str) -> list[str]:
        """Addresses of the ports held for a container."""
        rows = self.product.query("SELECT address FROM local_ports WHERE device_id = ?", uuid)
        return [row["address"] for row in rows]

    def holds_nothing(self, uuid: str) -> bool:
        """No engine container, no allocation, no port."""
        return self.engine(uuid) is None and not self.allocation(uuid) and not self.ports(uuid)
