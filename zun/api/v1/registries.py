"""Routes of registries. The password is never shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zun.api import paging
from zun.api.call import Answer, Call
from zun.api.schemas import LINKS, TEXT, TEXT_OR_NULL, listing, wrapped
from zun.api.table import Route
from zun.api.v1.models.registries import RegistryCreate, RegistryUpdate
from zun.api.views import links, location
from zun.control import registries
from zun.store.registries import FILTERS, SORTABLE

_PREFIX = "registry:get_one"


def _view(row: Mapping[str, Any], hidden: frozenset[str]) -> dict[str, Any]:
    found = {
        "uuid": row["uuid"],
        "name": row["name"],
        "project_id": row["project_id"],
        "user_id": row["user_id"],
        "domain": row["domain"],
        "username": row["username"],
        "password": "***",
    }
    return {name: value for name, value in found.items() if name not in hidden} if hidden else found


def _single(call: Call, row: Mapping[str, Any]) -> dict[str, Any]:
    hidden = call.policy.hidden_fields(_PREFIX, call.caller)
    return {"registry": {**_view(row, hidden), "links": links(call, "registries", row["uuid"])}}


async def list_registries(call: Call) -> Answer:
    paging.refuse_unknown(call, FILTERS)
    all_projects = paging.free_boolean(call, "all_projects")
    if all_projects:
        call.policy.enforce("registry:get_all_all_projects", call.caller)
    wanted = paging.read(call, SORTABLE)
    hidden = call.policy.hidden_fields(_PREFIX, call.caller)
    filters = {name: call.query[name] for name in FILTERS if name in call.query}
    for name in (*filters, wanted.sort_key):
        if name in hidden:
            call.policy.enforce(f"{_PREFIX}:{name}", call.caller)
    rows = await registries.page(
        call.control,
        call.caller,
        limit=wanted.limit,
        sort_key=wanted.sort_key,
        descending=wanted.descending,
        marker=wanted.marker,
        filters=filters,
        all_projects=all_projects,
    )
    following = paging.next_link(call, "registries", wanted, len(rows), rows[-1]["uuid"] if rows else None)
    return Answer({"registries": [_view(row, hidden) for row in rows], "next": following})


async def show(call: Call) -> Answer:
    return Answer(_single(call, await registries.find(call.control, call.caller, call.path["registry_ident"])))


async def create(call: Call) -> Answer:
    args: RegistryCreate = call.args
    row = await registries.create(call.control, call.caller, args.registry.given())
    return Answer(_single(call, row), headers=location(call, "registries", row["uuid"]))


async def update(call: Call) -> Answer:
    args: RegistryUpdate = call.args
    ident = call.path["registry_ident"]
    return Answer(_single(call, await registries.update(call.control, call.caller, ident, args.registry.given())))


async def delete(call: Call) -> Answer:
    await registries.delete(call.control, call.caller, call.path["registry_ident"])
    return Answer()


_REGISTRY = {
    "uuid": TEXT,
    "name": TEXT_OR_NULL,
    "project_id": TEXT,
    "user_id": TEXT,
    "domain": TEXT,
    "username": TEXT_OR_NULL,
    "password": TEXT,
}
_ONE = wrapped("registry", {**_REGISTRY, "links": LINKS})

ROUTES = [
    Route(
        "GET",
        "/registries",
        "registry.list",
        list_registries,
        policy="registry:get_all",
        answer=listing("registries", _REGISTRY),
        summary="List registries",
        raises=(404,),
        parameters=(*paging.DOCUMENTED, "all_projects", *FILTERS),
    ),
    Route(
        "POST",
        "/registries",
        "registry.create",
        create,
        status=201,
        policy="registry:create",
        model=RegistryCreate,
        json_only=True,
        locates=True,
        example={"registry": {"name": "private", "domain": "registry.example.org", "username": "reader"}},
        answer=_ONE,
        summary="Store a registry",
    ),
    Route(
        "GET",
        "/registries/{registry_ident}",
        "registry.show",
        show,
        policy="registry:get_one",
        answer=_ONE,
        summary="Show a registry",
        raises=(404, 409),
    ),
    Route(
        "PATCH",
        "/registries/{registry_ident}",
        "registry.update",
        update,
        policy="registry:update",
        model=RegistryUpdate,
        answer=_ONE,
        summary="Change a registry",
        raises=(404, 409),
    ),
    Route(
        "DELETE",
        "/registries/{registry_ident}",
        "registry.delete",
        delete,
        status=204,
        policy="registry:delete",
        summary="Delete a registry",
        raises=(404, 409),
    ),
]
