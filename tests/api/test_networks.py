"""Networks of the nodes (§16): for administrators, made ahead of use and removed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.simulated_node import SimulatedCloud, simulated_cloud
from zun.domain.errors import EngineError

URL = "/v1/networks"


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[SimulatedCloud]:
    async with simulated_cloud(tmp_path) as made:
        yield made


@pytest.fixture
async def default(cloud: SimulatedCloud) -> str:
    """Id of the project's own network."""
    uuid = await cloud.create()
    (network,) = (await cloud.wait(uuid, "Running"))["addresses"]
    await cloud.http.delete(f"/v1/containers/{uuid}?force=true")
    await cloud.wait(uuid, "gone")
    cloud.runtime.networks.clear()
    return str(network)


def told(answer: httpx.Response) -> tuple[int, str]:
    (error,) = answer.json()["errors"]
    return answer.status_code, error["code"].removeprefix("container.")


async def make(cloud: SimulatedCloud, **body: Any) -> httpx.Response:
    return await cloud.http.post(URL, json=body)


async def test_made_once_and_removed_once(cloud: SimulatedCloud, default: str) -> None:
    answer = await make(cloud, name="first", neutron_net_id="default")
    assert answer.status_code == 200
    made = answer.json()
    assert set(made) == {"uuid", "name", "project_id", "user_id", "network_id", "neutron_net_id"}
    assert (made["name"], made["neutron_net_id"]) == ("first", default)
    assert list(cloud.runtime.networks) == [made["network_id"]]
    assert told(await make(cloud, name=None, neutron_net_id=default)) == (409, "network-already-exists")
    answer = await cloud.http.delete(f"{URL}//{default}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert not cloud.runtime.networks
    assert told(await cloud.http.delete(f"{URL}/{default}")) == (404, "network-not-found")


async def test_what_containers_made_is_removed_too(cloud: SimulatedCloud) -> None:
    uuid = await cloud.create()
    (network,) = (await cloud.wait(uuid, "Running"))["addresses"]
    assert told(await cloud.http.delete(f"{URL}/{network}")) == (409, "conflict")
    await cloud.http.delete(f"/v1/containers/{uuid}?force=true")
    await cloud.wait(uuid, "gone")
    assert (await cloud.http.delete(f"{URL}/{network}")).status_code == 204
    assert not cloud.runtime.networks


@pytest.mark.parametrize(
    "body", [{}, {"name": "ab"}, {"neutron_net_id": "ab"}, {"name": "ab", "neutron_net_id": None},
             {"name": "a", "neutron_net_id": "ab"}, {"name": "ab", "neutron_net_id": "ab", "more": 1}],
)  # fmt: skip
async def test_wrong_bodies_are_400(cloud: SimulatedCloud, body: dict[str, Any]) -> None:
    assert told(await make(cloud, **body)) == (400, "schema-validation-error")


async def test_unknown_networks_and_failing_nodes(cloud: SimulatedCloud, default: str) -> None:
    assert told(await make(cloud, name="ab", neutron_net_id="nowhere")) == (404, "network-not-found")
    cloud.runtime.fail_next("ensure_network", EngineError("no"))
    assert told(await make(cloud, name="ab", neutron_net_id=default)) == (409, "conflict")
    await cloud.die()
    assert (await make(cloud, name="ab", neutron_net_id=default)).status_code == 503
    await cloud.live()
    assert (await make(cloud, name="ab", neutron_net_id=default)).status_code == 200


async def test_who_and_since_when(cloud: SimulatedCloud) -> None:
    member = cloud.api.client(("member",))
    assert told(await member.post(URL, json={"name": "ab", "neutron_net_id": "default"})) == (
        403, "policy-not-authorized",
    )  # fmt: skip
    assert told(await member.delete(f"{URL}/default")) == (403, "policy-not-authorized")
    old = cloud.api.client(("admin",), version="1.26")
    assert (await old.delete(f"{URL}/default")).status_code == 406
    assert (await cloud.http.get(URL)).status_code == 405
