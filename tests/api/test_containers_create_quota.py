"""Creating containers: quota and unique names."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.api import told
from tests.support.containers import Plane, make_plane, refused
from zun.store.tables import containers

URL = "/v1/containers"


async def test_over_quota_asks_nobody_else(plane: Plane) -> None:
    """S1.6: 403, no row, no call to Placement."""
    status, slug, title = await refused(plane, {"image": "cirros", "disk": 160})
    assert (status, slug, title) == (403, "over-quota", "Quota exceeded for resources: ['disk']")
    assert "candidates" not in plane.placement.seen


async def test_defaults_count_against_the_quota(plane: Plane) -> None:
    """S1.5: what will be stored is what is counted."""
    await plane.client("admin").put("/v1/quotas/proj1", json={"cpu": 2})
    for _ in range(2):
        await plane.create(plane.client(), None)
    status, slug, _ = told(await plane.client().post(URL, json={"image": "cirros"}))
    assert (status, slug) == (403, "over-quota")


async def test_fifty_creates_at_once_never_pass_the_quota(plane: Plane) -> None:
    """S1.5, S1.6."""
    await plane.client("admin").put("/v1/quotas/proj1", json={"containers": 7})
    client = plane.client()
    answers = await asyncio.gather(*(client.post(URL, json={"image": "cirros"}) for _ in range(50)))
    codes = [answer.status_code for answer in answers]
    assert codes.count(202) == 7
    assert codes.count(403) == 43
    assert (await plane.usage())["containers"] == 7
    assert await plane.count(containers) == 7
    provider = (await plane.client("admin").get("/v1/hosts")).json()["hosts"][0]["uuid"]
    assert len(await plane.api.control.placement.consumers(provider)) == 7


@pytest.mark.parametrize(("scope", "other_project"), [("project", 202), ("global", 409)])
async def test_names_are_unique_where_the_operator_says_so(tmp_path: Path, scope: str, other_project: int) -> None:
    async with make_plane(tmp_path, {"compute.unique_container_name_scope": scope}) as plane:
        await plane.add_host()
        client = plane.client()
        answers = await asyncio.gather(*(client.post(URL, json={"image": "cirros", "name": "Web"}) for _ in range(8)))
        assert sorted(answer.status_code for answer in answers) == [202] + [409] * 7
        status, slug, title = told(await client.post(URL, json={"image": "cirros", "name": "wEB"}))
        assert (status, slug, title) == (
            409, "container-already-exists", "A container with name web already exists.",
        )  # fmt: skip
        other = plane.client(project_id="proj2")
        assert (await other.post(URL, json={"image": "cirros", "name": "web"})).status_code == other_project
        assert (await plane.usage())["containers"] == 1
