"""OpenStack-API-Version: every form of the header, and routes that exist in some versions only."""

from __future__ import annotations

import pytest

from tests.support.api import Api, fault


@pytest.mark.parametrize(
    ("header", "used"),
    [
        (None, "1.1"),
        ("container 1.1", "1.1"),
        ("container 1.25", "1.25"),
        ("container 1.40", "1.40"),
        ("container latest", "1.40"),
        ("container LaTest", "1.40"),
        ("compute latest", "1.40"),
        ("  container   1.7 ", "1.7"),
    ],
)
async def test_understood(api: Api, header: str | None, used: str) -> None:
    client = api.client(version=None, headers={} if header is None else {"OpenStack-API-Version": header})
    answer = await client.get("/v1/registries")
    assert answer.status_code == 200
    assert answer.headers["openstack-api-version"] == f"container {used}"
    assert answer.headers["openstack-api-minimum-version"] == "container 1.1"
    assert answer.headers["openstack-api-maximum-version"] == "container 1.40"
    assert answer.headers["vary"] == "OpenStack-API-Version"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "container",
        "1.1",
        "compute 1.1",
        "container 1",
        "container 1.1.1",
        "container 1.latest",
        "container one.two",
        "container 1.1, compute 2.1",
        "container -1.1",
        "container 1.١",
    ],
)
async def test_not_understood(api: Api, header: str) -> None:
    client = api.client(version=None)
    answer = await client.get("/v1/registries", headers={b"OpenStack-API-Version": header.encode("utf-8")})
    assert answer.status_code == 406
    error = fault(answer)
    assert (error["code"], error["title"], error["detail"]) == ("container.", "", "")
    assert "openstack-api-version" not in answer.headers


@pytest.mark.parametrize("number", ["1.0", "1.41", "2.1", "0.5", "999999999.1"])
async def test_out_of_range(api: Api, number: str) -> None:
    answer = await api.client(version=number).get("/v1/registries")
    assert answer.status_code == 406
    error = fault(answer)
    assert error["code"] == "zun.microversion-unsupported"
    assert error["title"] == "Requested microversion is unsupported"
    assert (error["min_version"], error["max_version"]) == ("1.1", "1.40")
    assert error["links"][0]["rel"] == "help"
    assert answer.headers["openstack-api-maximum-version"] == "container 1.40"


async def test_route_of_later_versions(api: Api) -> None:
    for version, status in (("1.3", 406), ("1.4", 200), ("1.40", 200)):
        answer = await api.client(("admin",), version=version).get("/v1/hosts")
        assert answer.status_code == status
    error = fault(await api.client(("admin",), version="1.3").get("/v1/hosts"))
    assert (error["code"], error["title"], error["detail"]) == ("container.", "", "")


async def test_discovery_evaluates_the_header(api: Api) -> None:
    assert (await api.client(token=None, version="1.41").get("/v1")).status_code == 406
    answer = await api.client(token=None, version="1.40").get("/v1/")
    assert answer.headers["openstack-api-version"] == "container 1.40"
