"""Actions of containers, and how containers are found and shown."""

from __future__ import annotations

from tests.support.api import told
from tests.support.containers import Plane
from zun.store import operations

URL = "/v1/containers"


async def test_actions_are_listed_newest_first_with_their_steps(plane: Plane) -> None:
    """§10.6."""
    client = plane.client()
    answer = await client.post(URL, json={"image": "cirros"})
    uuid, request = answer.json()["uuid"], answer.headers["x-openstack-request-id"]
    (operation,) = await plane.operations(uuid)
    now = plane.clock.now()
    async with plane.db.write() as connection:
        event = await operations.start_event(connection, operation.id, "image", now)
        await operations.set_progress(connection, event, {"done": 5, "total": 10, "phase": "Downloading"})
        await operations.add_event(
            connection, operation.id, "allocation", started=now, finished=now, error="secret text"
        )
    await plane.settle(uuid)
    await client.post(f"{URL}/{uuid}/stop")
    listed = (await client.get(f"{URL}/{uuid}/container_actions")).json()["containerActions"]
    assert [one["action"] for one in listed] == ["stop", "create"]
    assert listed[1]["request_id"] == request
    assert listed[0]["finish_time"] is None
    assert listed[1]["start_time"][10] == "T"
    one = (await client.get(f"{URL}/{uuid}/container_actions/{request}")).json()
    assert one["action"] == "create"
    steps = {step["event"]: step for step in one["events"]}
    assert steps["image"]["progress"] == {"done": 5, "total": 10, "phase": "Downloading"}
    assert (steps["allocation"]["result"], steps["allocation"]["traceback"]) == ("Error", None)
    seen = (await plane.client("admin").get(f"{URL}/{uuid}/container_actions/{request}")).json()
    assert {step["traceback"] for step in seen["events"]} == {None, "secret text"}
    missing = await client.get(f"{URL}/{uuid}/container_actions/req-nope")
    assert told(missing)[:2] == (404, "resource-not-found")


async def test_foreign_containers_are_404_and_ambiguous_names_409(plane: Plane) -> None:
    client, stranger = plane.client(), plane.client(project_id="proj2")
    mine = await plane.create(client, name="twin")
    assert told(await stranger.get(f"{URL}/{mine['uuid']}"))[:2] == (404, "container-not-found")
    assert told(await stranger.post(f"{URL}/twin/stop"))[2] == "Container twin could not be found."
    await plane.create(stranger, name="twin")
    assert (await client.get(f"{URL}/twin")).json()["uuid"] == mine["uuid"]
    assert told(await plane.client("admin").get(f"{URL}/twin")) == (
        409, "conflict", "Multiple containers exist with same name. Please use the container uuid instead.",
    )  # fmt: skip
    assert (await client.get(f"{URL}/twin?all_projects=False")).status_code == 200
    assert told(await client.get(f"{URL}/twin?all_projects=True"))[:2] == (403, "policy-not-authorized")


async def test_names_with_dots_are_reached(plane: Plane) -> None:
    client = plane.client()
    await plane.create(client, name="my.txt")
    assert (await client.get(f"{URL}/my.txt")).json()["name"] == "my.txt"


FIELDS = (
    "addresses auto_heal auto_remove command cpu cpu_policy created_at disk entrypoint environment healthcheck "
    "hostname image image_driver interactive labels links memory name ports project_id registry_id restart_policy "
    "security_groups status status_detail status_reason task_state tty updated_at user_id uuid workdir"
)


async def test_a_container_has_the_fields_of_the_contract_and_no_other(plane: Plane) -> None:
    """§10.2: hints, mounts, nets, exposed_ports, zone and engine id are never shown."""
    uuid = (await plane.create(plane.client()))["uuid"]
    shown = (await plane.client().get(f"{URL}/{uuid}")).json()
    assert sorted(shown) == FIELDS.split()
