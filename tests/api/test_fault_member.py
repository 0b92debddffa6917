"""``?fault=true``: why something is in ``Error``; without it answers are the contract's, byte for byte."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.api import told
from tests.support.containers import Plane
from zun.domain.operation import Kind
from zun.store import operations

CONTAINERS, CAPSULES = "/v1/containers", "/v1/capsules"
SPEC = {"containers": [{"image": "cirros"}]}
TEMPLATE = {"template": {"kind": "capsule", "capsuleVersion": "beta", "metadata": {}, "spec": SPEC}}
GIVEN_BACK = "Nothing until you rebuild or delete it: it holds nothing any more."
WATCHED = "Nothing until you start, rebuild or delete it. It goes on being watched, and shown as its engine has it."


async def shown(plane: Plane, url: str) -> Any:
    answer = await plane.client().get(url, params={"fault": "true"})
    assert answer.status_code == 200, answer.text
    return answer.json()["fault"]


async def fail(plane: Plane, uuid: str, step: str, text: str, code: str | None, **values: Any) -> None:
    """The node's operation failed in ``step``, while another was called off."""
    (operation,) = await plane.operations(uuid)
    now = plane.clock.now()
    async with plane.db.write() as connection:
        for name, error, kind in (("ports", "cancelled", "cancelled"), (step, text, code)):
            await operations.add_event(
                connection, operation.id, name, started=now, finished=now, error=error, code=kind
            )
        await operations.finish(connection, operation.id, worker=None, now=now, error=True)
    await plane.set_row(uuid, **{"status": "Error", "task_state": None, "status_reason": text, **values})


async def test_only_when_asked_for(plane: Plane) -> None:
    client = plane.client()
    uuid = (await plane.create(client, None))["uuid"]
    await fail(plane, uuid, "image", "No such image.", "image-failed")
    for url in (f"{CONTAINERS}/{uuid}", CONTAINERS, CAPSULES):
        plain = await client.get(url)
        assert b'"fault"' not in plain.content
        assert (await client.get(f"{url}?fault=false")).content == plain.content
    with_it = (await client.get(f"{CONTAINERS}/{uuid}?fault=1")).json()
    assert with_it.pop("fault")["code"] == "image-failed"
    assert with_it == (await client.get(f"{CONTAINERS}/{uuid}")).json()


async def test_a_step_that_failed(plane: Plane) -> None:
    uuid = (await plane.create(plane.client(), None))["uuid"]
    await fail(plane, uuid, "image", "Image x could not be pulled.", "image-pull-failed")
    found = await shown(plane, f"{CONTAINERS}/{uuid}")
    when = found.pop("when")
    assert found == {
        "code": "image-pull-failed",
        "message": "Image x could not be pulled.",
        "step": "image",
        "next": GIVEN_BACK,
    }
    assert when.startswith(f"{plane.clock.now():%Y-%m-%d}")


async def test_null_unless_in_error(plane: Plane) -> None:
    uuid = (await plane.create(plane.client(), "Running"))["uuid"]
    assert await shown(plane, f"{CONTAINERS}/{uuid}") is None


@pytest.mark.parametrize("url", [CONTAINERS, CAPSULES])
async def test_no_host(plane: Plane, url: str) -> None:
    await plane.host_down()
    body: dict[str, Any] = {"image": "cirros"} if url == CONTAINERS else TEMPLATE
    uuid = (await plane.client().post(url, json=body)).json()["uuid"]
    found = await shown(plane, f"{url}/{uuid}")
    assert (found["code"], found["step"], found["message"]) == (
        "no-valid-host",
        "schedule",
        "There are not enough hosts available.",
    )
    assert found["next"] == (GIVEN_BACK if url == CONTAINERS else "Nothing until you delete it.")


async def test_lists_say_it_of_each(plane: Plane) -> None:
    client = plane.client()
    await plane.create(client, "Running", name="well")
    uuid = (await plane.create(client, None, name="ill"))["uuid"]
    await fail(plane, uuid, "start", "exec format error", "start-failed", container_id="e" * 64)
    answer = await client.get(f"{CONTAINERS}?fault=true&limit=2")
    found = {one["name"]: one["fault"] for one in answer.json()["containers"]}
    assert found["well"] is None
    assert (found["ill"]["code"], found["ill"]["next"]) == ("start-failed", WATCHED)
    assert "fault=true" in answer.json()["next"]
    capsule = (await client.post(CAPSULES, json=TEMPLATE)).json()["uuid"]
    await fail(plane, capsule, "sandbox", "No sandbox.", "sandbox-failed")
    (one,) = (await client.get(f"{CAPSULES}?fault=true")).json()["capsules"]
    assert one["fault"]["code"] == "sandbox-failed"


async def test_what_a_node_saw_later_is_not_laid_to_an_old_failure(plane: Plane) -> None:
    client = plane.client()
    uuid = (await plane.create(client, "Running"))["uuid"]
    assert (await client.post(f"{CONTAINERS}/{uuid}/pause")).status_code == 202
    await fail(plane, uuid, "pause", "cgroup frozen", "engine-error", status="Running", status_reason=None)
    await plane.set_row(uuid, status="Error", status_reason="No such container: eee in Docker")
    found = await shown(plane, f"{CONTAINERS}/{uuid}")
    assert (found["code"], found["step"], found["next"]) == ("container-lost", None, WATCHED)


async def test_a_deadline(plane: Plane) -> None:
    uuid = (await plane.create(plane.client(), None))["uuid"]
    (operation,) = await plane.operations(uuid)
    plane.clock.ahead = operation.deadline - plane.clock.now() + timedelta(seconds=5)
    async with plane.db.write() as connection:
        await operations.finish(connection, operation.id, worker=None, now=plane.clock.now(), error=True)
    await plane.set_row(uuid, status="Error", task_state=None, status_reason="Container failed to create correctly")
    assert (await shown(plane, f"{CONTAINERS}/{uuid}"))["code"] == "deadline-exceeded"


async def test_what_comes_next(plane: Plane) -> None:
    client = plane.client()
    uuid = (await plane.create(client, None))["uuid"]
    url = f"{CONTAINERS}/{uuid}"
    await fail(plane, uuid, "volumes", "Not mounted.", "node-error")
    now = plane.clock.now()
    async with plane.db.write() as connection:
        await operations.insert(
            connection, container_uuid=uuid, kind=Kind.RELEASE, host="node1", request_id="req-1", user_id="u",
            project_id="p", params={}, now=now, deadline=now + timedelta(hours=1),
        )  # fmt: skip
    assert (await shown(plane, url))["next"].startswith("What it still holds is given back")
    await plane.host_down()
    assert (await shown(plane, url))["next"].startswith("Nothing until its host is back")


async def test_a_foreign_value_is_refused(plane: Plane) -> None:
    for url in (CONTAINERS, CAPSULES):
        assert told(await plane.client().get(f"{url}?fault=perhaps"))[:2] == (400, "invalid-value")
