"""Neutron's resources as the adapters read and write them: lists filtered by Neutron, never a call an item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from zun.domain.errors import NetworkSetupFailed
from zun.openstack.client import Refused, ServiceClient

Row = Mapping[str, Any]
"""A resource as Neutron shows it."""

_IDS_A_CALL = 50
"""A request line holds about 8 KiB; an id takes 40 bytes of it."""


class NeutronApi:
    """Raises Refused (4xx) and ServiceUnavailable. ``token``: the user's; without it our account, an administrator."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client

    async def find(self, kind: str, *, token: str | None = None, **filters: Any) -> list[Row]:
        """Resources of ``kind`` (``ports``, ``security-groups``, …); a list as a filter means any of its items. Where
        Neutron answers in pages (``pagination_max_limit``), all of them."""
        params = [(_filter(name), _text(one)) for name, value in filters.items() for one in _items(value)]
        plural, rows, place = kind.replace("-", "_"), list[Row](), list[tuple[str, str]]()
        while True:
            answer = await self._client.request("GET", f"/v2.0/{kind}", params=[*params, *place], token=token)
            rows += answer.body[plural]
            following = _following(answer.body.get(f"{plural}_links") or [])
            if not following or following == place or not answer.body[plural]:
                return rows
            place = following

    async def by_id(self, kind: str, ids: Sequence[str], *, token: str | None = None) -> dict[str, Row]:
        """Those of ``ids`` that exist, by id."""
        found: list[Row] = []
        for start in range(0, len(ids), _IDS_A_CALL):
            found += await self.find(kind, token=token, id=ids[start : start + _IDS_A_CALL])
        return {row["id"]: row for row in found}

    async def statuses(self, ports: Sequence[str]) -> dict[str, str]:
        """Port id -> ``ACTIVE``, ``DOWN``, …"""
        found: list[Row] = []
        for start in range(0, len(ports), _IDS_A_CALL):
            found += await self.find("ports", id=ports[start : start + _IDS_A_CALL], fields=["id", "status"])
        return {row["id"]: row["status"] for row in found}

    async def create(self, kind: str, bodies: Sequence[Row]) -> list[Row]:
        """Make all of them in one call, or none. Not repeated: Neutron may have made them though it did not answer."""
        plural = kind.replace("-", "_")
        answer = await self._client.request("POST", f"/v2.0/{kind}", json={plural: list(bodies)})
        rows: list[Row] = answer.body[plural]
        return rows

    async def create_one(self, kind: str, body: Row) -> Row:
        """The same for a kind that is made one by one."""
        singular = kind.removesuffix("s").replace("-", "_")
        answer = await self._client.request("POST", f"/v2.0/{kind}", json={singular: dict(body)})
        row: Row = answer.body[singular]
        return row

    async def update(self, kind: str, ident: str, values: Row, *, revision: int | None = None) -> Row:
        """Change one; with ``revision`` only while it is still that one (Refused 412)."""
        singular = kind.removesuffix("s").replace("-", "_")
        headers = {} if revision is None else {"If-Match": f"revision_number={revision}"}
        path = f"/v2.0/{kind}/{quote(ident)}"
        answer = await self._client.request("PUT", path, json={singular: dict(values)}, headers=headers)
        row: Row = answer.body[singular]
        return row

    async def tag(self, kind: str, ident: str, tag: str) -> None:
        """Add a tag; it may be there."""
        await self._client.request("PUT", f"/v2.0/{kind}/{quote(ident)}/tags/{quote(tag)}")

    async def delete(self, kind: str, ident: str) -> bool:
        """False when it was gone already."""
        try:
            await self._client.request("DELETE", f"/v2.0/{kind}/{quote(ident)}")
        except Refused as refusal:
            if refusal.status != 404:
                raise
            return False
        return True


def failure(what: str, refusal: Refused) -> NetworkSetupFailed:
    """A refusal on the node, with Neutron's own words: quota, addresses used up, things gone."""
    return NetworkSetupFailed(f"Neutron refused {what}: {refusal.message}")


def _following(links: Sequence[Row]) -> list[tuple[str, str]]:
    """Where the next page begins, and how long it is; nothing behind the last one. Only that is taken of the link:
    it may name an address that is not ours to call."""
    href = next((str(link["href"]) for link in links if link.get("rel") == "next"), "")
    return [pair for pair in parse_qsl(urlsplit(href).query) if pair[0] in ("limit", "marker")]


def _filter(name: str) -> str:
    """``router__external`` is ``router:external``."""
    return name.replace("__", ":")


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else (value,)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
