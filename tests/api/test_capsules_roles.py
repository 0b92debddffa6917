"""Capsules in the API: projects and the rules of policy.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.api import fault
from tests.support.capsules import SAMPLE, create, template
from tests.support.containers import Plane, make_plane


async def test_projects_do_not_see_each_other(plane: Plane) -> None:
    mine, other = plane.client(), plane.client(project_id="other", user_id="somebody")
    uuid = (await create(mine, template(name="mine")))["uuid"]
    for ident in (uuid, "mine"):
        assert fault(await other.get(f"/v1/capsules/{ident}"))["status"] == 404
        assert fault(await other.delete(f"/v1/capsules/{ident}"))["status"] == 404
    assert (await other.get("/v1/capsules")).json()["capsules"] == []
    admin = plane.client("admin", project_id="adminproject")
    assert (await admin.get("/v1/capsules")).json()["capsules"] == []
    assert len((await admin.get("/v1/capsules?all_projects=1")).json()["capsules"]) == 1
    assert (await admin.get(f"/v1/capsules/{uuid}")).status_code == 200


async def test_all_projects_is_for_administrators(plane: Plane) -> None:
    client = plane.client()
    uuid = (await create(client, template()))["uuid"]
    for method, path in (("GET", ""), ("GET", f"/{uuid}"), ("DELETE", f"/{uuid}")):
        refused = fault(await client.request(method, f"/v1/capsules{path}?all_projects=true"))
        assert refused["code"] == "container.policy-not-authorized", path
        allowed = await plane.client("admin").request(method, f"/v1/capsules{path}?all_projects=true")
        assert allowed.status_code in (200, 204)
    assert (await client.get("/v1/capsules?all_projects=False")).status_code == 200


@pytest.mark.parametrize(
    ("rule", "method", "path"),
    [
        ("capsule:create", "POST", "/v1/capsules"),
        ("capsule:get_all", "GET", "/v1/capsules"),
        ("capsule:get", "GET", "/v1/capsules/{uuid}"),
        ("capsule:delete", "DELETE", "/v1/capsules/{uuid}"),
    ],
)
async def test_each_rule_is_asked(tmp_path: Path, rule: str, method: str, path: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(f'"{rule}": "role:admin"\n')
    async with make_plane(tmp_path, {"api.policy_file": str(file)}) as plane:
        await plane.add_host(capsules=True)
        uuid = (await create(plane.client("admin"), template()))["uuid"]
        body = {"template": template()} if method == "POST" else None
        answer = await plane.client().request(method, path.format(uuid=uuid), json=body)
        assert fault(answer)["title"] == f"Policy doesn't allow {rule} to be performed."


async def test_an_operators_rule_hides_a_field(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text('"capsule:get:annotations": "role:admin"\n')
    async with make_plane(tmp_path, {"api.policy_file": str(file)}) as plane:
        await plane.add_host(capsules=True)
        uuid = (await create(plane.client("admin"), SAMPLE))["uuid"]
        assert "annotations" not in (await plane.client().get(f"/v1/capsules/{uuid}")).json()
        assert (await plane.client("admin").get(f"/v1/capsules/{uuid}")).json()["annotations"] == {"k": "v"}
