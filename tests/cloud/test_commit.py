"""Images of containers, and containers of images, on the testbed's Glance, as users and their clients see them."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.support.cloud_product import CloudProduct
from tests.support.engine import Engine
from tests.support.glance import GlanceThread
from tests.support.stock_client import StockClient, refused
from tests.support.testbed import REGISTRY, Testbed
from tests.support.testbed_project import Project
from tests.support.wait import wait_until

pytestmark = pytest.mark.xdist_group("glance")  # images of others in the engine are seen


class User:
    """One project's user of the product."""

    def __init__(self, product: CloudProduct, project: Project) -> None:
        self.project = project
        self.http = product.http(project.account)

    def ask(self, **body: Any) -> httpx.Response:
        body = {"image": "busybox", "cpu": 0.1, "memory": 32} | body
        return self.http.post("/v1/containers", params={"run": "true"}, json=body)

    def run(self, *statuses: str, **body: Any) -> str:
        answer = self.ask(**body)
        assert answer.status_code == 202, answer.text
        uuid = str(answer.json()["uuid"])
        self.wait(uuid, *(statuses or ("Running",)))
        return uuid

    def show(self, uuid: str) -> dict[str, Any]:
        return dict(self.http.get(f"/v1/containers/{uuid}").json())

    def wait(self, uuid: str, *statuses: str) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            shown = self.show(uuid)
            return shown if shown["status"] in statuses and shown["task_state"] is None else None

        found = wait_until(reached, 60, f"{uuid} becomes {statuses}")
        assert found is not None
        return found

    def commit(self, uuid: str, repository: str, **query: str) -> tuple[str, str]:
        """Ids of image and request."""
        answer = self.http.post(f"/v1/containers/{uuid}/commit", params={"repository": repository, **query})
        assert answer.status_code == 202, answer.text
        assert set(answer.json()) == {"uuid"}
        return str(answer.json()["uuid"]), answer.headers["x-openstack-request-id"]

    def image(self, uuid: str) -> dict[str, Any]:
        """The record as the user reads it in Glance."""
        return dict(self.project.account.call("image", "GET", f"/v2/images/{uuid}"))

    def action(self, uuid: str, request_id: str) -> dict[str, Any]:
        path = f"/v1/containers/{uuid}/container_actions/{request_id}"

        def ended() -> dict[str, Any] | None:
            found: dict[str, Any] = self.http.get(path).json()
            return found if found["finish_time"] else None

        found = wait_until(ended, 60, f"{request_id} ended")
        assert found is not None
        return found

    def log(self, uuid: str) -> str:
        return str(self.http.get(f"/v1/containers/{uuid}/logs").json())

    def delete(self, uuid: str) -> None:
        self.wait(uuid, "Running")  # the engine pauses it while the image is made
        assert self.http.post(f"/v1/containers/{uuid}/stop", params={"timeout": "1"}).status_code == 202
        wait_until(lambda: self.show(uuid)["status"] != "Running", 30, "stopped")
        assert self.http.delete(f"/v1/containers/{uuid}").status_code == 204


@pytest.fixture
def glance() -> Iterator[GlanceThread]:
    proxy = GlanceThread()
    yield proxy
    proxy.stop()


@pytest.fixture
def product(
    make_cloud_product: Callable[..., CloudProduct], engine: Engine, glance: GlanceThread, testbed: Testbed
) -> Iterator[CloudProduct]:
    """Keystone and Glance are the cloud's; what is not looked at here is the embedded one."""
    made = make_cloud_product()
    made.conf(
        placement={"driver": "local"}, network={"driver": "local"}, volume={"driver_list": "local"},
        glance_client={"endpoint_override": glance.url, "timeout": 5},
        docker={"pull_stall_timeout": 5, "pull_attempts": 2}, compute={"retry_attempts": 2, "reaper_interval": 1},
    )  # fmt: skip
    before = set(ours(engine))
    yield made.start()
    made.clear()
    marks = [hashlib.sha256(f"{made.deployment_id}/{node.host}".encode()).hexdigest()[:16] for node in made.nodes]
    wait_until(
        lambda: not [name for name in ours(engine) if name.split("/")[1] in marks], 20, "no image is left behind"
    )
    for name in set(ours(engine)) - before:
        engine.remove_image(name)


def ours(engine: Engine) -> list[str]:
    tags = [tag for row in engine.get("/images/json") for tag in row["RepoTags"] or ()]
    return [tag for tag in tags if tag.startswith(("commits.invalid/", "glance.invalid/"))]


@pytest.fixture
def user(product: CloudProduct, new_project: Callable[..., Project]) -> User:
    return User(product, new_project())


def active(user: User, uuid: str) -> Callable[[], bool]:
    return lambda: user.image(uuid)["status"] == "active"


WRITES = ["sh", "-c", "echo hello > /testfile; sleep 1000"]


def test_a_container_becomes_an_image_and_the_image_a_container(user: User, engine: Engine) -> None:
    repository = f"mine-{secrets.token_hex(4)}"  # other tests delete images by their names
    first = user.run(command=WRITES)
    wait_until(
        lambda: "hello" in user.http.post(f"/v1/containers/{first}/execute", params={"command": "cat /testfile"}).text,
        20,
        "written",
    )
    image, request_id = user.commit(first, repository)
    record = user.image(image)  # at once
    assert (record["name"], record["container_format"], record["tags"]) == (repository, "docker", ["latest"])
    assert (record["owner"], record["visibility"]) == (user.project.id, "private")
    action = user.action(first, request_id)
    assert (action["action"], action["message"]) == ("commit", None)
    assert {event["event"] for event in action["events"]} == {"upload", "commit"}
    assert user.image(image)["status"] == "active"
    assert user.image(image)["size"] > 500_000
    assert user.show(first)["status"] == "Running"
    for name in (repository, image, f"{repository}:latest"):
        second = user.run(image=name, image_driver="glance", command=["sh", "-c", "cat /testfile; sleep 1000"])
        shown = user.show(second)
        assert (shown["image"], shown["image_driver"]) == (name, "glance")
        wait_until(lambda: user.log(second) == "hello\n", 20, "the file is there")  # noqa: B023
    assert [tag for tag in ours(engine) if image in tag] == [f"glance.invalid/{image}:latest"]
    # Rebuilt without a name it is made of the very image it has, though its name has moved on.
    user.project.account.call("image", "DELETE", f"/v2/images/{image}")
    assert user.http.post(f"/v1/containers/{second}/rebuild").status_code == 202
    user.wait(second, "Running")
    assert user.ask(image=repository, image_driver="glance").status_code == 400


def test_entrypoint_command_and_tag_are_kept(user: User, product: CloudProduct, engine: Engine) -> None:
    first = user.run(command=["echo started; sleep 1000"], entrypoint=["/bin/sh", "-c"])
    image, request_id = user.commit(first, "team/app", tag="v7")
    assert user.action(first, request_id)["message"] is None
    assert user.image(image)["tags"] == ["v7"]
    second = user.run(image="team/app:v7", image_driver="glance")
    shown = user.show(second)
    assert (shown["entrypoint"], shown["command"]) == (["/bin/sh", "-c"], ["echo started; sleep 1000"])
    # Whoever loads it elsewhere has the name that was asked for, and no mark of this deployment.
    data = user.project.account.ask("image", "GET", f"/v2/images/{image}/file").content
    loaded = engine._http.post("/images/load", content=data)
    assert "team/app:v7" in loaded.text
    labels = engine.get("/images/team/app:v7/json")["Config"]["Labels"]
    assert not any(labels.values()), labels
    engine.remove_image("team/app:v7")


def test_a_stopped_and_a_paused_container_stay_what_they_are(user: User) -> None:
    uuid = user.run(command=WRITES)
    user.http.post(f"/v1/containers/{uuid}/pause")
    user.wait(uuid, "Paused")
    _, request_id = user.commit(uuid, "paused")
    assert user.action(uuid, request_id)["message"] is None
    assert user.show(uuid)["status"] == "Paused"
    user.http.post(f"/v1/containers/{uuid}/unpause")
    user.wait(uuid, "Running")
    user.http.post(f"/v1/containers/{uuid}/stop", params={"timeout": "0"})
    user.wait(uuid, "Stopped")
    second, request_id = user.commit(uuid, "stopped")
    assert user.action(uuid, request_id)["message"] is None
    assert user.image(second)["status"] == "active"
    assert user.show(uuid)["status"] == "Stopped"


def test_the_container_need_not_wait_for_the_upload(user: User, glance: GlanceThread, product: CloudProduct) -> None:
    """Stopped and deleted while its image is on the way, with Glance away for a time; the image comes all the same."""
    uuid = user.run(command=WRITES)
    glance.set(mode_uploads="refuse")
    image, _ = user.commit(uuid, "survivor")
    wait_until(lambda: any(image in tag for tag in ours(product.engine)), 30, "the engine has made it")
    user.delete(uuid)
    wait_until(lambda: user.http.get(f"/v1/containers/{uuid}").status_code == 404, 30, "deleted")
    assert user.image(image)["status"] in ("queued", "saving")
    glance.set(mode_uploads="pass")
    wait_until(active(user, image), 60, "the image has its data")


def test_an_upload_that_breaks_off_is_done_again(user: User, glance: GlanceThread) -> None:
    uuid = user.run(command=WRITES)
    glance.set(cut_uploads=1)
    image, request_id = user.commit(uuid, "broken")
    assert user.action(uuid, request_id)["message"] is None
    assert user.image(image)["status"] == "active"


@pytest.mark.parametrize("moment", ["while it is sent", "before"])
def test_an_agent_killed_in_a_commit_finishes_it_after_its_start(
    user: User, product: CloudProduct, glance: GlanceThread, moment: str
) -> None:
    uuid = user.run(command=WRITES)
    if moment == "before":
        product.node.kill()
        glance.set(mode_uploads="pass")
        image, request_id = user.commit(uuid, "later")
    else:
        glance.set(mode_uploads="refuse")
        image, request_id = user.commit(uuid, "later")
        wait_until(lambda: any(image in tag for tag in ours(product.engine)), 30, "the engine has made it")
        product.node.kill()
        glance.set(mode_uploads="pass")
    product.node.spawn()
    product.wait_up()
    assert user.action(uuid, request_id)["message"] is None
    assert user.image(image)["status"] == "active"
    assert user.show(uuid)["status"] == "Running"


def test_an_image_deleted_by_its_owner_ends_the_commit(user: User, glance: GlanceThread, product: CloudProduct) -> None:
    uuid = user.run(command=WRITES)
    glance.set(mode_uploads="refuse")
    image, request_id = user.commit(uuid, "unwanted")
    user.project.account.call("image", "DELETE", f"/v2/images/{image}")
    glance.set(mode_uploads="pass")
    assert user.action(uuid, request_id)["message"] == "Error"
    admin = product.http().get(f"/v1/containers/{uuid}/container_actions/{request_id}").json()
    assert any("is no longer in Glance" in (event["traceback"] or "") for event in admin["events"]), admin["events"]


def test_no_image_stays_where_the_commit_cannot_be(
    user: User, product: CloudProduct, glance: GlanceThread, testbed: Testbed
) -> None:
    created = user.ask(image="busybox").json()["uuid"]
    glance.set(mode="refuse")
    user.wait(created, "Running", "Stopped")
    answer = user.http.post(f"/v1/containers/{created}/commit", params={"repository": "no"})
    assert answer.status_code == 503
    assert "Glance is not available" in answer.json()["errors"][0]["title"] + answer.json()["errors"][0]["detail"]
    glance.set(mode="pass")
    wait_until(lambda: product.query("SELECT id FROM operations WHERE finish_time IS NULL") == [], 30, "all ended")
    assert testbed.images(owner=user.project.id) == []


def test_another_projects_image_cannot_be_run(
    user: User, product: CloudProduct, new_project: Callable[..., Project]
) -> None:
    uuid = user.run(command=WRITES)
    image, request_id = user.commit(uuid, "secret")
    assert user.action(uuid, request_id)["message"] is None
    user.run(image=image, image_driver="glance", command=["sleep", "1000"])  # in the engine by now
    stranger = User(product, new_project())
    for name in (image, "secret"):
        answer = stranger.ask(image=name, image_driver="glance")
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "container.image-not-found")
    for trick in (f"glance.invalid/{image}", f"glance.invalid/{image}:latest"):
        assert stranger.ask(image=trick).status_code == 400
        other = stranger.run("Running", "Stopped", command=["sleep", "1000"])
        assert stranger.http.post(f"/v1/containers/{other}/rebuild", params={"image": trick}).status_code == 400
    rebuilt = stranger.http.post(f"/v1/containers/{other}/rebuild", params={"image": image, "image_driver": "glance"})
    assert rebuilt.status_code == 400


def test_the_stock_client_commits_pulls_lists_searches_and_deletes(
    user: User, product: CloudProduct, engine: Engine
) -> None:
    mine = StockClient(product.url, user.project.token)
    operator = StockClient(product.url, product.testbed.admin.token)
    uuid = user.run(command=WRITES)
    said = mine.text("appcontainer", "commit", uuid, "from/client:v3")
    (image,) = set(re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", said)) - {uuid}
    wait_until(active(user, image), 60, "the image has its data")
    assert user.image(image)["tags"] == ["v3"]
    (found,) = mine.container("image", "search", "from/client", "--image-driver", "glance", "--exact-match")
    assert (found["ID"], found["Name"], found["Status"]) == (image, "from/client", "active")
    assert mine.container("image", "search", "library/busybox", "--exact-match")[0]["Name"] == "library/busybox"
    assert mine.container("image", "search", "no-such-thing") == []
    (host,) = product.hosts_up()
    pulled = operator.container("image", "pull", "library/busybox:latest", host)
    assert pulled["image_id"] is None

    def there() -> dict[str, Any] | None:
        shown: dict[str, Any] = operator.container("image", "show", pulled["uuid"])
        return shown if shown["image_id"] else None

    shown = wait_until(there, 60, "the host has it")
    assert shown is not None
    assert (shown["repo"], shown["tag"], shown["host"]) == (f"{REGISTRY}/library/busybox", "latest", host)
    assert pulled["uuid"] in [row["uuid"] for row in operator.container("image", "list")]
    refused(mine.raw("appcontainer", "image", "list"), 403, "Policy doesn't allow image:get_all to be performed.")
    said = operator.text("appcontainer", "image", "delete", pulled["uuid"])
    assert "is used by a container" in said
    user.delete(uuid)
    wait_until(lambda: user.http.get(f"/v1/containers/{uuid}").status_code == 404, 30, "deleted")
    assert "has been accepted" in operator.text("appcontainer", "image", "delete", pulled["uuid"])
    wait_until(
        lambda: pulled["uuid"] not in [row["uuid"] for row in operator.container("image", "list")], 60, "it is gone"
    )
