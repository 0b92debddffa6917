"""Lists of containers: paging, sorting, filters, visibility, and what a page costs (§8, §10.3)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.api import PROJECT, USER, fault
from tests.support.containers import Plane, make_plane
from zun.api.v1 import container_views
from zun.domain.container import Container
from zun.store import containers
from zun.store.containers import LIST_COLUMNS, SORTABLE

URL = "/v1/containers"


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    async with make_plane(tmp_path) as made:
        await made.add_host()
        yield made


async def fill(plane: Plane, count: int, **values: Any) -> list[str]:
    """Rows written directly: half of the columns null in every second one."""
    now, uuids = plane.clock.now(), []
    async with plane.db.write() as connection:
        for number in range(count):
            uuid = f"00000000-0000-4000-8000-{number:012d}"
            odd = number % 2 == 1
            row = Container(
                uuid=uuid, name=f"c{count - number:04d}", project_id=PROJECT, user_id=USER, image=f"image{number % 3}",
                image_driver="docker", status=("Running", "Stopped", "Error")[number % 3], cpu=float(number % 4),
                memory=128 * (number % 5), host="node1" if odd else None, hostname=f"h{number % 2}" if odd else None,
                status_detail="Up @1700000000" if odd else None, auto_remove=odd, created_at=now,
                environment={"A": "b" * 200} if odd else None, labels={"number": str(number)},
                command=["sleep", "1000"], started_at=now if odd else None,
            )  # fmt: skip
            await containers.insert(connection, row)
            uuids.append(uuid)
    return uuids


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("key", sorted(SORTABLE))
async def test_pages_hold_every_row_once_whatever_they_are_sorted_by(plane: Plane, key: str, direction: str) -> None:
    uuids = await fill(plane, 11)
    client, found, url = plane.client("admin"), [], f"{URL}?limit=3&sort_key={key}&sort_dir={direction}"
    for _ in range(6):
        page = (await client.get(url)).json()
        found += [item["uuid"] for item in page["containers"]]
        if page["next"] is None:
            break
        assert page["next"].startswith("http://localhost/v1/containers?")
        url = page["next"]
    assert sorted(found) == uuids
    assert len(found) == len(set(found))


async def test_next_repeats_the_filters(plane: Plane) -> None:
    await fill(plane, 12)
    page = (await plane.client().get(f"{URL}?limit=2&status=Running")).json()
    assert "status=Running" in page["next"]
    following = (await plane.client().get(page["next"])).json()
    assert {item["status"] for item in following["containers"]} == {"Running"}


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("status=Running", 4),
        ("status=Running&status=Stopped", 8),
        ("name=c0001", 1),
        ("image=image0&image=image1", 8),
        ("memory=128", 3),
        ("auto_remove=True", 6),
        ("auto_remove=0", 6),
        ("project_id=proj1", 12),
        ("project_id=proj2", 0),
        ("task_state=container_creating", 0),
    ],
)
async def test_filters_match_exactly_and_any_of_repeated_values(plane: Plane, query: str, count: int) -> None:
    await fill(plane, 12)
    assert len((await plane.client().get(f"{URL}?{query}")).json()["containers"]) == count


@pytest.mark.parametrize(
    ("query", "status", "slug"),
    [
        ("bogus=1", 400, "invalid-value"),
        ("all_tenants=1", 400, "invalid-value"),
        ("limit=0", 400, "invalid-value"),
        ("sort_key=websocket_token", 400, "invalid-parameter-value"),
        ("sort_key=hints", 400, "invalid-parameter-value"),
        ("sort_dir=up", 400, "invalid-value"),
        ("auto_remove=perhaps", 400, "invalid-value"),
        ("memory=128m", 400, "invalid-value"),
        ("marker=00000000-0000-4000-8000-999999999999", 404, "container-not-found"),
        ("all_projects=1", 403, "policy-not-authorized"),
        ("host=node1", 403, "policy-not-authorized"),
        ("sort_key=host", 403, "policy-not-authorized"),
    ],
)
async def test_what_is_not_understood_or_not_allowed(plane: Plane, query: str, status: int, slug: str) -> None:
    answer = await plane.client().get(f"{URL}?{query}")
    assert (answer.status_code, fault(answer)["code"]) == (status, f"container.{slug}")


async def test_unknown_parameters_are_named(plane: Plane) -> None:
    assert fault(await plane.client().get(f"{URL}?bogus=1"))["title"] == "Unknown parameters: bogus"


async def test_admins_see_hosts_and_with_the_switch_all_projects(plane: Plane) -> None:
    await fill(plane, 4)
    admin = plane.client("admin", project_id="other")
    assert (await admin.get(URL)).json() == {"containers": [], "next": None}
    seen = (await admin.get(f"{URL}?all_projects=1&host=node1")).json()["containers"]
    assert [item["host"] for item in seen] == ["node1", "node1"]
    assert "host" not in (await plane.client().get(URL)).json()["containers"][0]


async def test_list_items_have_maps_and_lists_never_null_and_no_links(plane: Plane) -> None:
    """Horizon reads ``item.labels[...]``."""
    await fill(plane, 2)
    plain, full = (await plane.client().get(URL)).json()["containers"]
    assert "links" not in plain
    assert plain["environment"] == plain["addresses"] == plain["restart_policy"] == plain["healthcheck"] == {}
    assert plain["ports"] == plain["security_groups"] == plain["entrypoint"] == []
    assert full["environment"] == {"A": "b" * 200}
    assert full["command"] == ["sleep", "1000"]
    assert (full["auto_remove"], full["memory"], full["cpu"], full["updated_at"]) == (True, "128", 1.0, None)
    assert full["status_detail"].endswith(" days")
    assert full["created_at"][10] == " "


async def test_list_and_show_say_the_same(plane: Plane) -> None:
    uuid = (await plane.create(plane.client(), labels={"a": "b"}, hostname="hh"))["uuid"]
    (item,) = (await plane.client().get(URL)).json()["containers"]
    shown = (await plane.client().get(f"{URL}/{uuid}")).json()
    del shown["links"]
    assert item == shown


async def test_a_token_without_project_sees_its_users_containers(plane: Plane) -> None:
    await fill(plane, 2)
    assert len((await plane.client(project_id=None, user_id=USER).get(URL)).json()["containers"]) == 2
    assert (await plane.client(project_id=None, user_id="other").get(URL)).json()["containers"] == []


async def test_a_hundred_rows_cost_little_to_show(plane: Plane) -> None:
    """The list's hot path, without database and HTTP: a generous bound that only a parse per row would break."""
    await fill(plane, 100)
    wanted = containers.Page(limit=100, scope={"project_id": PROJECT})
    async with plane.db.read() as connection:
        rows = await containers.page(connection, wanted)
    assert len(rows) == 100
    assert all(isinstance(row["labels"], str) for row in rows), "JSON columns stay text"
    assert LIST_COLUMNS

    class _Call:
        control = plane.api.control
        caller = None

        class policy:
            @staticmethod
            def hidden_fields(*_: object) -> frozenset[str]:
                return frozenset({"host"})

    best = 1.0
    for _ in range(10):
        started = time.process_time()
        view = container_views.ListView(_Call())  # type: ignore[arg-type]
        orjson.dumps([view.item(row) for row in rows])
        best = min(best, time.process_time() - started)
    assert best < 0.005
