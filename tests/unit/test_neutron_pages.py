"""Lists of a Neutron that answers in pages: all of them, asked of the service that we know."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from zun.network.neutron_api import NeutronApi

PORTS = [{"id": f"port-{number}"} for number in range(5)]


class PagedNeutron:
    """As with ``pagination_max_limit``: two a page, and a link to the next one when a page is full."""

    def __init__(self, *, endless: bool = False) -> None:
        self.endless = endless
        self.asked: list[list[tuple[str, str]]] = []

    async def request(self, method: str, path: str, *, params: list[tuple[str, str]], token: str | None) -> Any:
        assert (method, path, token) == ("GET", "/v2.0/ports", "theirs")
        self.asked.append(params)
        marker = dict(params).get("marker")
        start = 0 if marker is None or self.endless else [port["id"] for port in PORTS].index(marker) + 1
        page = PORTS[start : start + 2]
        body: dict[str, Any] = {"ports": page}
        if len(page) == 2:
            href = f"http://elsewhere.example/v2.0/ports?limit=2&marker={page[-1]['id']}&device_id=other"
            body["ports_links"] = [{"rel": "previous", "href": "x"}, {"rel": "next", "href": href}]
        return SimpleNamespace(body=body)


async def test_all_pages_are_read_with_the_same_filters() -> None:
    neutron = PagedNeutron()
    api = NeutronApi(neutron)  # type: ignore[arg-type]
    assert await api.find("ports", token="theirs", device_id=["a", "b"]) == PORTS
    filters = [("device_id", "a"), ("device_id", "b")]
    assert neutron.asked == [
        filters,
        [*filters, ("limit", "2"), ("marker", "port-1")],
        [*filters, ("limit", "2"), ("marker", "port-3")],
    ]


async def test_a_list_that_never_ends_is_not_followed_for_ever() -> None:
    neutron = PagedNeutron(endless=True)
    rows = await NeutronApi(neutron).find("ports", token="theirs")  # type: ignore[arg-type]
    assert (rows, len(neutron.asked)) == ([*PORTS[:2], *PORTS[:2]], 2)


@pytest.mark.parametrize("links", [[], [{"rel": "previous", "href": "http://n/v2.0/ports?marker=x"}]])
async def test_without_a_next_page_one_call_is_enough(links: list[Any]) -> None:
    class Neutron:
        async def request(self, *_: Any, **__: Any) -> Any:
            return SimpleNamespace(body={"ports": PORTS, "ports_links": links})

    assert await NeutronApi(Neutron()).find("ports") == PORTS  # type: ignore[arg-type]
