"""Images on hosts through the API, with an agent at work; and the search."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.simulated_node import SimulatedCloud, simulated_cloud
from tests.support.wait import eventually
from zun.domain.errors import ImageFailed

URL = "/v1/images"
FIELDS = {"uuid", "links", "image_id", "repo", "tag", "size", "project_id", "host"}


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[SimulatedCloud]:
    async with simulated_cloud(tmp_path) as made:
        yield made


async def pull(cloud: SimulatedCloud, repo: str, **more: Any) -> dict[str, Any]:
    answer = await cloud.http.post(URL, json={"repo": repo, "host": "sim", **more})
    assert answer.status_code == 202, answer.text
    body: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"http://localhost/v1/images/{body['uuid']}"
    return body


async def pulled(cloud: SimulatedCloud, repo: str) -> dict[str, Any]:
    uuid = (await pull(cloud, repo))["uuid"]

    async def there() -> bool:
        return bool((await cloud.http.get(f"{URL}/{uuid}")).json().get("image_id"))

    await eventually(there, 30, f"{repo} is pulled")
    return dict((await cloud.http.get(f"{URL}/{uuid}")).json())


def error(answer: Any) -> tuple[int, str, str]:
    (found,) = answer.json()["errors"]
    return found["status"], found["code"].removeprefix("container."), found["title"]


async def gone(cloud: SimulatedCloud, uuid: str) -> None:
    async def away() -> bool:
        return (await cloud.http.get(f"{URL}/{uuid}")).status_code == 400

    await eventually(away, 30, f"{uuid} is gone")


async def test_pulled_listed_shown_and_deleted(cloud: SimulatedCloud) -> None:
    made = await pull(cloud, "team/app", image_pull_policy="Always", size="5M", tag="ignored", image_id=None)
    assert set(made) == FIELDS
    assert (made["repo"], made["tag"], made["host"], made["image_id"], made["size"]) == (
        "team/app", "latest", "sim", None, None,
    )  # fmt: skip

    async def there() -> bool:
        return (await cloud.http.get(f"{URL}/{made['uuid']}")).json()["image_id"] is not None

    await eventually(there, 30, "pulled")
    shown = (await cloud.http.get(f"{URL}/{made['uuid']}")).json()
    found = await cloud.runtime.image("team/app:latest")
    assert found is not None
    assert (shown["image_id"], shown["size"]) == (found.image_id, str(found.size))
    assert (await cloud.http.get(f"{URL}/")).json() == {"images": [shown], "next": None}
    answer = await cloud.http.delete(f"{URL}/{made['uuid']}")
    assert (answer.status_code, answer.json()) == (200, None)
    await gone(cloud, made["uuid"])
    assert await cloud.runtime.image("team/app:latest") is None


async def test_one_name_once_a_host(cloud: SimulatedCloud) -> None:
    first = await pulled(cloud, "app:1")
    again = await cloud.http.post(URL, json={"repo": "app:1", "host": "sim"})
    assert error(again) == (409, "image-already-exists", "The image app:1 already exists on host sim.")
    assert (await pulled(cloud, "app:2"))["tag"] == "2"
    digest = "a" * 64
    assert (await pulled(cloud, f"app@sha256:{digest}"))["tag"] == f"sha256:{digest}"
    await cloud.http.delete(f"{URL}/{first['uuid']}")
    await gone(cloud, first["uuid"])
    await pulled(cloud, "app:1")


@pytest.mark.parametrize(
    ("body", "slug", "text"),
    [
        ({"repo": "app", "host": "nowhere"}, "invalid-value", "The host nowhere does not exist."),
        ({"repo": "UPPER/bad:::", "host": "sim"}, "invalid-value", "Invalid image reference"),
        ({"repo": "glance.invalid/x", "host": "sim"}, "invalid-value", "there is no such registry"),
        ({"repo": "app"}, "schema-validation-error", "host"),
        ({"host": "sim"}, "schema-validation-error", "repo"),
        ({"repo": "app", "host": "sim", "x": 1}, "schema-validation-error", "x"),
        ({"repo": "app", "host": "sim", "size": "5X"}, "schema-validation-error", "size"),
        ({"repo": "app", "host": "sim", "image_pull_policy": "some"}, "schema-validation-error", "image_pull_policy"),
    ],
)
async def test_wrong_requests_are_told(cloud: SimulatedCloud, body: dict[str, Any], slug: str, text: str) -> None:
    status, code, title = error(await cloud.http.post(URL, json=body))
    assert (status, code) == (400, slug)
    assert text in title
    assert (await cloud.http.get(URL)).json()["images"] == []


async def test_what_does_not_exist_is_400(cloud: SimulatedCloud) -> None:
    for ident in ("1b671a64-40d5-491e-99b0-da01ff1f3341", "no-uuid", "a.json"):
        for method in ("GET", "DELETE"):
            assert error(await cloud.http.request(method, f"{URL}/{ident}"))[:2] == (400, "image-not-found")
    assert error(await cloud.http.get(URL, params={"marker": "x"}))[:2] == (400, "image-not-found")


async def test_an_image_that_cannot_be_had_leaves_no_record(cloud: SimulatedCloud) -> None:
    cloud.runtime.refuse_image("bad:latest", ImageFailed("Image bad:latest was not found"))
    await gone(cloud, (await pull(cloud, "bad"))["uuid"])
    assert (await cloud.http.get(URL)).json()["images"] == []


async def test_an_image_in_use_stays(cloud: SimulatedCloud) -> None:
    image = await pulled(cloud, "busybox")
    uuid = await cloud.create(image="busybox")
    await cloud.wait(uuid, "Running")
    status, code, title = error(await cloud.http.delete(f"{URL}/{image['uuid']}"))
    assert (status, code) == (409, "conflict")
    assert "is used by a container" in title
    await cloud.http.delete(f"/v1/containers/{uuid}", params={"stop": "true"})
    await cloud.wait(uuid, "gone")
    assert (await cloud.http.delete(f"{URL}/{image['uuid']}")).status_code == 200
    await gone(cloud, image["uuid"])


async def test_an_agent_that_died_in_a_pull_pulls_after_its_start(cloud: SimulatedCloud) -> None:
    cloud.runtime.faults.hang("pull")
    uuid = (await pull(cloud, "slow"))["uuid"]
    await eventually(lambda: cloud.runtime.faults.calls["pull"] == 1, 30, "the pull began")
    await cloud.die()
    cloud.runtime.faults.resume("pull")
    await cloud.live()

    async def there() -> bool:
        return bool((await cloud.http.get(f"{URL}/{uuid}")).json().get("image_id"))

    await eventually(there, 30, "pulled")


async def test_a_delete_calls_the_pull_off(cloud: SimulatedCloud) -> None:
    cloud.runtime.faults.hang("pull")
    uuid = (await pull(cloud, "slow"))["uuid"]
    await eventually(lambda: cloud.runtime.faults.calls["pull"] == 1, 30, "the pull began")
    for _ in range(2):
        assert (await cloud.http.delete(f"{URL}/{uuid}")).status_code == 200
    await gone(cloud, uuid)


async def test_pages(cloud: SimulatedCloud) -> None:
    names = [f"app{n}" for n in range(3)]
    for name in names:
        await pull(cloud, name)
    first = (await cloud.http.get(URL, params={"limit": 2, "sort_key": "repo"})).json()
    second = (await cloud.http.get(first["next"])).json()
    assert [row["repo"] for row in first["images"] + second["images"]] == names
    assert second["next"] is None


async def test_search_is_for_everybody_and_takes_names_with_slashes(cloud: SimulatedCloud) -> None:
    for name in ("app", "team/app", "r.example:5000/team/deep/app"):
        cloud.runtime.add_image(name)
    member = cloud.api.client(("member",))

    async def names(path: str, **params: Any) -> list[str]:
        answer = await member.request("GET", f"{URL}/{path}/search", params=params, content=b"null")
        assert answer.status_code == 200, answer.text
        assert all(set(row["metadata"]) == {"is_official", "star_count"} for row in answer.json())
        return [row["name"] for row in answer.json()]

    assert await names("app") == ["app", "r.example:5000/team/deep/app", "team/app"]
    assert await names("team/app", exact_match="True", image_driver="docker") == ["team/app"]
    assert await names("team%2Fapp", exact_match="True", image_driver="None") == ["team/app"]
    assert await names("nothing") == []
    for path, params in (
        ("bad:::", {}),
        ("a", {"image_driver": "other"}),
        ("a", {"exact_match": "1"}),
        ("a", {"x": "1"}),
    ):
        assert (await member.get(f"{URL}/{path}/search", params=params)).status_code == 400, (path, params)
    assert (await member.get(URL)).status_code == 403
    await cloud.http.put(
        "/v1/services/force_down", params={"host": "sim", "binary": "zun-compute", "forced_down": True}
    )
    assert (await member.get(f"{URL}/app/search")).status_code == 409
