"""What the product sends, received by oslo.messaging's own notification listener, as services of the cloud have it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.services.test_notifications import there
from tests.support.live import Live, live
from tests.support.notification_listener import Listener, listener
from tests.support.rabbit import Rabbit
from tests.support.wait import wait_until

BODY = {"image": "busybox", "name": "told", "cpu": 0.5, "memory": "64", "environment": {"SECRET": "hush"}}
CONTEXT = {"request_id", "user_id", "project_id"}


class Place:
    """A broker with an exchange and a topic that nobody else has."""

    def __init__(self, folder: Path, rabbit: Rabbit) -> None:
        self.folder, self.rabbit = folder, rabbit
        self.topic, self.exchange = (f"{name}-{uuid4().hex[:8]}" for name in ("topic", "exchange"))

    @contextmanager
    def listening(self, **rabbit: Any) -> Iterator[Listener]:
        # One thread: what comes is told in its order.
        own = {"transport_url": self._url(), "control_exchange": self.exchange, "executor_thread_pool_size": 1}
        options = {"DEFAULT": own, "oslo_messaging_rabbit": rabbit}
        with listener(self.folder / "listener", self.topic, options) as found:
            yield found

    def _url(self) -> str:
        """oslo.messaging does not take a slash in a password, as that of the broker's first user has one."""
        name, password = f"consumer-{uuid4().hex[:8]}", uuid4().hex
        self.rabbit.ctl("add_user", name, password)
        self.rabbit.ctl("set_permissions", name, ".*", ".*", ".*")
        return self.rabbit.url(user=name, password=password)

    @contextmanager
    def product(self, driver: str) -> Iterator[Live]:
        options = {
            "DEFAULT": {"control_exchange": self.exchange, "maximum_memory": 10**9},
            "quota": {"memory": -1},
            "oslo_messaging_notifications": {
                "driver": driver, "transport_url": self.rabbit.url(), "topics": self.topic,
            },
        }  # fmt: skip
        with live(self.folder / "zun", options) as zun:
            yield zun


@pytest.fixture
def place(tmp_path: Path, rabbit: Rabbit) -> Place:
    return Place(tmp_path, rabbit)


def _lives(zun: Live) -> list[dict[str, Any]]:
    """One that is made and deleted, and one that no host takes: as they were shown, and the create's ``request_id``."""
    with zun.http(zun.admin) as client:
        answer = client.post("/v1/containers?run=true", json=BODY)
        path = f"/v1/containers/{answer.json()['uuid']}"
        wait_until(lambda: client.get(path).json()["status"] == "Running", 60, "it runs")
        made = client.get(path).json() | {"request_id": answer.headers["x-openstack-request-id"]}
        answer = client.post("/v1/containers", json=BODY | {"name": "large", "memory": "999999999"})
        large = answer.json() | {"request_id": answer.headers["x-openstack-request-id"]}
        assert client.delete(f"{path}?force=true").status_code == 204
        wait_until(lambda: client.get(path).status_code == 404, 60, "it is gone")
        return [made, large]


def _check(heard: list[dict[str, Any]], made: dict[str, Any], large: dict[str, Any]) -> None:
    """What consumers read of it."""
    mine = {one["uuid"]: [row for row in heard if row["payload"]["uuid"] == one["uuid"]] for one in (made, large)}
    assert sum(map(len, mine.values())) == len(heard)
    assert [(row["priority"], row["event_type"]) for row in mine[made["uuid"]]] == [
        ("info", "container.create.start"),
        ("info", "container.create.end"),
        ("info", "container.delete.start"),
        ("info", "container.delete.end"),
    ]
    assert {(row["priority"], row["event_type"]) for row in mine[large["uuid"]]} == {
        ("info", "container.create.start"),
        ("error", "container.create.error"),
    }
    end = mine[made["uuid"]][1]
    wanted = {name: made[name] for name in ("uuid", "name", "project_id", "user_id", "image", "cpu")}
    wanted |= {"status": "Running", "memory": 64, "action": "create", "reason": None}
    assert {name: end["payload"][name] for name in wanted} == wanted
    refused = next(row for row in mine[large["uuid"]] if row["priority"] == "error")
    assert refused["payload"]["status"] == "Error"
    assert refused["payload"]["status_reason"] == "There are not enough hosts available."
    assert refused["payload"]["reason"]
    for row, one in ((end, made), (refused, large)):
        assert row["context"].keys() >= CONTEXT
        assert row["context"]["request_id"] == one["request_id"]
        assert row["metadata"].keys() == {"message_id", "timestamp"}
        assert row["publisher_id"].partition(".")[0] == "container"
    assert "hush" not in str(heard)


def test_a_listener_that_comes_later(place: Place) -> None:
    """As docs/howto/notifications.md has it: nothing was lost before the first consumer came."""
    with ExitStack() as stack:
        zun = stack.enter_context(place.product("messagingv2"))
        lives = _lives(zun)
        heard = stack.enter_context(place.listening(amqp_durable_queues=True))
        _check(heard.wait(6), *lives)


def test_a_listener_that_was_there_first_by_its_own_defaults(place: Place) -> None:
    """Its exchange and queues, which do not last, are used as they are; without the envelope, too."""
    with ExitStack() as stack:
        heard = stack.enter_context(place.listening())
        asyncio.run(there(place.rabbit, f"{place.topic}.error"))
        lives = _lives(stack.enter_context(place.product("messaging")))
        _check(heard.wait(6), *lives)
