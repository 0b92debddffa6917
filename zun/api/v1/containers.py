"""Routes of containers: create, list, show, change, rename, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zun.api import idempotent, paging, place, several, waiting
from zun.api.call import Answer, Call, Version
from zun.api.schemas import LINKS, listing, obj
from zun.api.table import Route
from zun.api.v1 import container_create, container_operations, fault_views
from zun.api.v1.container_answers import CONTAINER, ITEM, OPTIONAL
from zun.api.v1.container_find import asked, enforce_on, find
from zun.api.v1.container_views import RULE, ListView, hidden, last_known, single
from zun.api.v1.models import containers as models
from zun.api.v1.models.common import FREE
from zun.control import containers_delete, containers_update
from zun.control.containers_list import page
from zun.control.containers_lookup import again, host_silence
from zun.domain.errors import InvalidParamInVersion, InvalidValue
from zun.domain.lifecycle import Status, require
from zun.store.containers import FILTERS, SORTABLE, kind_of


async def list_containers(call: Call) -> Answer:
    """One page. The hot path: no query per row, JSON columns are passed through as text."""
    paging.refuse_unknown(call, (*FILTERS, "after", fault_views.PARAMETER))
    with_fault = fault_views.wanted(call)
    all_projects = paging.free_boolean(call, "all_projects")
    if all_projects:
        call.policy.enforce("container:get_all_all_projects", call.caller)
    wanted = paging.read(call, SORTABLE)
    filters = {name: _filter_values(name, call.query[name]) for name in FILTERS if name in call.query}
    _require_visible(call, [*filters, wanted.sort_key])
    text = paging.last(call, "after")
    after = place.read(text, kind_of(wanted.sort_key)) if text else None
    rows = await page(call.control, call.caller, wanted, filters, all_projects=all_projects, after=after)
    view, final = ListView(call), rows[-1] if rows else None
    following = None
    if final is not None:
        behind = place.write(final["id"], final[wanted.sort_key])
        following = paging.next_link(call, "containers", wanted, len(rows), final["uuid"], behind)
    items = [view.item(row) for row in rows]
    if with_fault:
        await fault_views.add(call, items, [fault_views.of_listed(row) for row in rows])
    return Answer({"containers": items, "next": following})


def _require_visible(call: Call, names: Sequence[str]) -> None:
    """What a caller may not see cannot be filtered or sorted by."""
    unseen = hidden(call)
    for name in names:
        if name in unseen:
            call.policy.enforce(f"{RULE}:{name}", call.caller)


def _filter_values(name: str, texts: Sequence[str]) -> list[Any]:
    """Values as the column holds them; several mean any of them. Raises InvalidValue."""
    if name == "auto_remove":
        return [_boolean(name, text) for text in texts]
    if name == "memory":
        return [_whole(name, text) for text in texts]
    return list(texts)


def _boolean(name: str, text: str) -> bool:
    try:
        return FREE.check(text)
    except ValueError:
        raise InvalidValue(f"Invalid value for filter {name}: it has to be a boolean.") from None


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidValue(f"Invalid value for filter {name}: it has to be a whole number of MiB.")
    return int(text)


async def show(call: Call) -> Answer:
    """The stored row; the node's watcher keeps it fresh, so a node that is down costs nothing (S1.24, S3.2)."""
    all_projects = paging.free_boolean(call, "all_projects")
    if all_projects:
        call.policy.enforce("container:get_one_all_projects", call.caller)
    wanted, with_fault = waiting.read(call), fault_views.wanted(call)
    row = await find(call, "container:get_one", all_projects=all_projects, members=True)
    if wanted is not None and await waiting.until(call, row, wanted):
        row = await again(call.control, row.uuid)
    shown = await single(call, row)
    if with_fault:
        await fault_views.add(call, [shown], [fault_views.of_container(row)])
    silence = await host_silence(call.control, row.host) if row.host else None
    if silence is not None:
        fault_views.host_down(shown)
        shown = last_known(shown, silence)
    return Answer(shown)


async def update(call: Call) -> Answer:
    """PATCH; cpu and memory are changed on the node before the answer."""
    row = await find(call, "container:update")
    changes: Mapping[str, Any] = call.args.given()
    require("update", row.uuid, row.status)
    return Answer(await single(call, await containers_update.update(call.control, asked(call), row, changes)))


async def rename(call: Call) -> Answer:
    """Up to 1.13; no status check."""
    row = await find(call, "container:rename")
    return Answer(await single(call, await containers_update.rename(call.control, row, call.args.name)))


async def delete(call: Call) -> Answer:
    """204 before the work is done (S3.4)."""
    _check_flags(call, call.args)
    await _delete(call, call.path["container_ident"], call.args)
    return Answer()


async def delete_several(call: Call) -> Answer:
    """Each as by itself; nothing is deleted that is not named."""
    args: models.DeleteSeveral = call.args
    _check_flags(call, args)
    return await several.delete_each(call, args.ids, lambda ident: _delete(call, ident, args))


def _check_flags(call: Call, args: models.Delete) -> None:
    if args.all_projects:
        call.policy.enforce("container:delete_all_projects", call.caller)
    _flag_since(call, "force", 7, given=args.force)
    _flag_since(call, "stop", 12, given=args.stop)


async def _delete(call: Call, ident: str, args: models.Delete) -> None:
    row = await find(call, "container:delete", all_projects=args.all_projects, ident=ident)
    if args.force:
        enforce_on(call, "container:delete_force", row)
    if args.stop and row.status == Status.RUNNING:
        enforce_on(call, "container:stop", row)
    manner = containers_delete.Manner(force=args.force, stop=args.stop)
    await containers_delete.delete(call.control, asked(call), row, manner)


def _flag_since(call: Call, name: str, minor: int, *, given: bool) -> None:
    if given and call.version < Version(1, minor):
        raise InvalidParamInVersion(
            f"Invalid param {name} because current request version is {call.version}. "
            f"{name} is only supported from version 1.{minor}"
        )


_ONE = "/containers/{container_ident}"
_LISTED = {**ITEM, fault_views.MEMBER: fault_views.SCHEMA}
_OPTIONAL = OPTIONAL | {fault_views.MEMBER}

ROUTES: list[Route] = [
    Route(
        "GET", "/containers", "container.list", list_containers, policy="container:get_all",
        answer=listing("containers", _LISTED, optional=_OPTIONAL), summary="List containers", raises=(404,),
        parameters=(*paging.DOCUMENTED, "after", "all_projects", fault_views.PARAMETER, *FILTERS),
    ),
    Route(
        "DELETE", "/containers", "container.delete_several", delete_several, policy="container:delete",
        model=models.DeleteSeveral, answer=several.ANSWER, summary="Delete several containers",
    ),
    Route(
        "POST", "/containers", "container.create", container_create.create, 202, policy="container:create",
        model=models.create, json_only=True, answer=CONTAINER, summary="Create a container, and run it",
        raises=(404, 409), locates=True, headers=(idempotent.HEADER,),
        example={"image": "busybox", "command": ["sleep", "1000"], "memory": "64", "cpu": 0.1},
    ),
    Route(
        "GET", _ONE, "container.show", show, answer=obj({**_LISTED, "links": LINKS}, _OPTIONAL),
        summary="Show a container, perhaps once it has a status", raises=(404, 409),
        parameters=("all_projects", fault_views.PARAMETER, *waiting.PARAMETERS),
    ),
    Route(
        "PATCH", _ONE, "container.update", update, model=models.update, answer=CONTAINER,
        summary="Change name, healing, cpu, memory", raises=(404, 409),
    ),
    Route(
        "DELETE", _ONE, "container.delete", delete, 204, model=models.Delete, summary="Delete a container",
        raises=(404, 409),
    ),
    Route(
        "POST", f"{_ONE}/rename", "container.rename", rename, max_version=Version(1, 13), model=models.Rename,
        answer=CONTAINER, summary="Rename a container", raises=(404, 409),
    ),
    *container_operations.ROUTES,
]  # fmt: skip
