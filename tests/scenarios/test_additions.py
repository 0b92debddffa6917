"""What the API has beside Zun's, on a real engine: keys of creates, waits, status events, deletes of several, and the
fault of what is in Error. See docs/howto/scripts-and-programs.md and events.md."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.cloud import SLEEP, Cloud
from tests.support.sse import Sent, listen
from tests.support.wait import wait_until

pytestmark = pytest.mark.xdist_group("additions")  # one product
SYNC_SECONDS = 600
"""What happens behind the product's back is seen by the engine's events."""
BODY = {"image": "busybox", "command": SLEEP, "cpu": 0.1, "memory": 32}


def create(cloud: Cloud, key: str, **body: Any) -> httpx.Response:
    return cloud.http.post("/v1/containers?run=true", json=BODY | body, headers={"Idempotency-Key": key})


def code(answer: httpx.Response) -> tuple[int, str]:
    (error,) = answer.json()["errors"]
    return answer.status_code, error["code"]


def awaited(cloud: Cloud, uuid: str, status: str, seconds: int = 60) -> httpx.Response:
    """The answer of a GET that waits."""
    answer = cloud.http.get(f"/v1/containers/{uuid}", params={"wait_for": status, "timeout": seconds}, timeout=120)
    assert answer.status_code in (200, 404), answer.text
    return answer


def comes(cloud: Cloud, uuid: str, status: str) -> dict[str, Any]:
    """The container, which a GET that waits has seen in ``status``."""
    shown: dict[str, Any] = awaited(cloud, uuid, status).json()
    assert shown["status"] == status, shown
    return shown


# -- keys of creates --------------------------------------------------------------------------------


def test_a_key_makes_one_container_also_across_a_restart(team: Cloud) -> None:
    key = str(uuid4())
    first = create(team, key, name="once")
    assert first.status_code == 202, first.text
    uuid = first.json()["uuid"]
    comes(team, uuid, "Running")
    team.product.restart()
    again = create(team, key, name="once")
    assert (again.status_code, again.content) == (202, first.content), "the answer of then"
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["idempotency-replayed"] == "true"
    assert code(create(team, key, name="other")) == (409, "container.idempotency-key-reused")
    assert code(team.http.post("/v1/containers", json=BODY | {"name": "once"}, headers={"Idempotency-Key": key})) == (
        409, "container.idempotency-key-reused",
    )  # fmt: skip
    assert [one["uuid"] for one in team.get("/containers")["containers"]] == [uuid]
    assert [row["Names"] for row in team.product.engine_containers()] == [[f"/zun-{uuid}"]]
    team.delete(uuid, stop="true")
    team.wait_gone(uuid)
    assert create(team, key, name="once").json()["uuid"] == uuid, "a late repetition makes nothing either"
    assert not team.product.engine_containers()


def test_a_key_that_comes_from_many_at_once_makes_one_container(team: Cloud) -> None:
    key = str(uuid4())
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: create(team, key), range(8)))
    assert [one.status_code for one in answers] == [202] * 8, [one.text for one in answers]
    (uuid,) = {one.json()["uuid"] for one in answers}
    comes(team, uuid, "Running")
    assert len(team.product.engine_containers()) == 1


# -- waits ------------------------------------------------------------------------------------------


def test_a_wait_ends_with_what_was_asked_for(team: Cloud) -> None:
    uuid = team.create()["uuid"]
    comes(team, uuid, "Running")
    found = team.engine(uuid)
    assert found
    assert found["State"]["Running"]
    for action, status in (("pause", "Paused"), ("unpause", "Running"), ("stop", "Stopped"), ("start", "Running")):
        team.act(uuid, action)
        comes(team, uuid, status)
    team.delete(uuid, stop="true")
    assert awaited(team, uuid, "Deleted").status_code == 404
    assert team.engine(uuid) is None


def test_a_wait_ends_with_what_the_engine_does_by_itself(team: Cloud) -> None:
    """A process that ends, and a kill at the engine behind Zun's back."""
    job = team.create(command=["sh", "-c", "exit 3"])["uuid"]
    comes(team, job, "Stopped")
    ended = team.engine(job)
    assert ended
    assert ended["State"]["ExitCode"] == 3
    uuid = team.running()["uuid"]
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(comes, team, uuid, "Stopped")
        metrics = team.product.http()
        wait_until(lambda: "zun_api_waiting_requests 1.0" in metrics.get("/metrics").text, 60, "the request waits")
        team.product.engine.post(f"/containers/zun-{uuid}/kill")
        assert held.result(120)["uuid"] == uuid


def test_a_wait_for_what_cannot_come_is_answered(team: Cloud) -> None:
    uuid = team.create(command=["no-such-program"])["uuid"]
    assert awaited(team, uuid, "Running").json()["status"] == "Error"
    runs = team.running()["uuid"]
    assert awaited(team, runs, "Stopped", 1).json()["status"] == "Running", "its time is over"
    assert code(team.http.get(f"/v1/containers/{runs}?wait_for=Nonsense"))[0] == 400


# -- status events ----------------------------------------------------------------------------------


def until(events: Iterator[Sent], name: str, status: str | None) -> list[Sent]:
    found = []
    for one in events:
        found.append(one)
        if (one.name, one.data.get("status")) == (name, status):
            return found
    raise AssertionError(f"the stream ended before {name} {status}: {found}")


def test_events_of_an_engine_are_told_and_resumed_by_id(team: Cloud) -> None:
    engine = team.product.engine
    with listen(team.product.http(team.http.headers["X-Auth-Token"]), "/v1/events") as (head, events):
        assert head.status_code == 200
        uuid = team.create(name="heard")["uuid"]
        found = until(events, "status", "Running")
        for verb, status in (("pause", "Paused"), ("unpause", "Running"), ("kill", "Stopped")):
            engine.post(f"/containers/zun-{uuid}/{verb}")
            found += until(events, "status", status)
    # Nobody listens now: what happens meanwhile, and in another process, is told to who comes again.
    team.act(uuid, "start")
    comes(team, uuid, "Running")
    team.product.restart()
    team.delete(uuid, stop="true")
    team.wait_gone(uuid)
    with listen(team.http, "/v1/events", found[-1].ident) as (_, events):
        found += until(events, "deleted", None)
    assert {(one.data["uuid"], one.data["name"], one.data["type"]) for one in found} == {(uuid, "heard", "container")}
    walk = [None, "Creating", "Running", "Paused", "Running", "Stopped", "Running", "Deleting"]
    changes = [(one.data["previous_status"], one.data["status"]) for one in found if one.name != "deleted"]
    assert changes == list(pairwise(walk))
    numbers = [int(one.ident) for one in found]
    assert numbers == sorted(set(numbers))
    for place in range(len(found) - 1):  # wherever it broke off, the same comes
        with listen(team.http, "/v1/events", found[place].ident) as (_, events):
            assert until(events, "deleted", None) == found[place + 1 :]


# -- deletes of several -----------------------------------------------------------------------------


def test_several_are_deleted_each_with_its_answer(team: Cloud) -> None:
    runs, named = team.running()["uuid"], team.running(name="by-name")["uuid"]
    stopped = team.create(run=False)["uuid"]
    paused = team.running()["uuid"]
    broken = team.create(command=["no-such-program"])["uuid"]
    comes(team, stopped, "Created")
    comes(team, broken, "Error")
    team.act(paused, "pause")
    comes(team, paused, "Paused")
    absent = str(uuid4())

    def delete(ids: list[str], **flags: Any) -> list[tuple[str, int, str | None]]:
        answer = team.http.request("DELETE", "/v1/containers", json={"ids": ids, **flags})
        assert answer.status_code == 200, answer.text
        return [(one["id"], one["status"], one["error"] and one["error"]["code"]) for one in answer.json()["results"]]

    assert delete([runs, stopped, absent, broken]) == [
        (runs, 409, "container.invalid-state-exception"),
        (stopped, 204, None),
        (absent, 404, "container.container-not-found"),
        (broken, 204, None),
    ]
    for uuid in (stopped, broken):
        assert awaited(team, uuid, "Deleted").status_code == 404
    assert delete([runs, "by-name", paused], stop=True) == [
        (runs, 204, None),
        ("by-name", 204, None),
        (paused, 409, "container.invalid-state-exception"),
    ]
    for uuid in (runs, named):
        team.wait_gone(uuid)
    for uuid in (runs, named, stopped, broken):
        wait_until(lambda uuid=uuid: team.holds_nothing(uuid), 60, "nothing of it is held")
    assert [row["Names"] for row in team.product.engine_containers()] == [[f"/zun-{paused}"]]


# -- faults -----------------------------------------------------------------------------------------


def fault(cloud: Cloud, uuid: str) -> Any:
    return cloud.get(f"/containers/{uuid}?fault=true")["fault"]


def test_the_fault_of_what_an_engine_refuses(team: Cloud) -> None:
    command = team.create(command=["no-such-program"])["uuid"]
    image = team.create(image="no/such:image")["uuid"]
    well = team.running()["uuid"]
    shown = {uuid: comes(team, uuid, "Error") for uuid in (command, image)}
    found = fault(team, command)
    assert (found["code"], found["step"]) == ("start-failed", "start")
    assert found["message"] == shown[command]["status_reason"]
    assert "no-such-program" in found["message"]
    assert found["next"] == "Nothing until you rebuild or delete it: it holds nothing any more."
    assert datetime.fromisoformat(found["when"]) >= datetime.fromisoformat(shown[command]["created_at"])
    found = fault(team, image)
    assert (found["code"], found["step"], found["message"]) == ("image-failed", "image", shown[image]["status_reason"])
    listed = {one["uuid"]: one["fault"] for one in team.get("/containers?fault=true")["containers"]}
    assert listed == {uuid: fault(team, uuid) for uuid in (command, image)} | {well: None}
    assert "fault" not in team.get(f"/containers/{command}"), "only when it is asked for"


def test_the_fault_of_what_an_engine_lost_until_it_is_made_anew(team: Cloud) -> None:
    uuid = team.running()["uuid"]
    team.product.engine.remove(f"zun-{uuid}")
    reason = team.wait(uuid, "Error")["status_reason"]  # it may be seen to end before it is seen to be gone
    found = fault(team, uuid)
    assert (found["code"], found["step"], found["message"]) == ("container-lost", None, reason)
    assert found["next"].startswith("Nothing until you start, rebuild or delete it.")
    team.act(uuid, "start")
    team.wait(uuid, "Running")
    assert fault(team, uuid) is None
    assert team.engine(uuid)
