"""Routes of capsules: create, list, show, delete (contract §11). Up to 1.31 answers have older names."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.api import idempotent, paging, several, waiting
from zun.api.call import Answer, Call, Version
from zun.api.schemas import listing, obj
from zun.api.table import Route
from zun.api.v1 import capsule_views as views
from zun.api.v1 import fault_views
from zun.api.v1.container_find import asked
from zun.api.v1.models import capsules as models
from zun.api.views import location
from zun.control import capsules_create as control
from zun.control import capsules_lookup, capsules_values, container_names, containers_delete
from zun.control.containers_lookup import host_silence
from zun.control.idempotency import Claim
from zun.domain import capsule as domain
from zun.domain.container import Container
from zun.domain.errors import Forbidden
from zun.store.containers import SORTABLE

_RULE = "capsule"


async def create(call: Call) -> Answer:
    """202 with the new capsule; also when no host can take it, then it is ``Error`` (S2.1, S2.5)."""
    return await idempotent.once(call, _create)


async def _create(call: Call, claim: Claim | None) -> Answer:
    async def keep(connection: AsyncConnection, made: control.NewCapsule) -> None:
        if claim is not None:
            await claim.keep(connection, made.capsule.uuid, idempotent.kept(_answer(call, made)))

    new = await _checked(call)
    return _answer(call, await control.create(call.control, asked(call), new, None if claim is None else keep))


def _answer(call: Call, made: control.NewCapsule) -> Answer:
    body = views.single(call, made.capsule, made.members, fresh=True)
    return Answer(body, headers=location(call, "capsules", made.capsule.uuid))


async def _checked(call: Call) -> control.NewCapsule:
    """Every check passed that needs no volume and no host."""
    caller = call.caller
    if caller.project_id is None:  # allocation, ports and volumes are a project's
        raise Forbidden("A capsule belongs to a project, and the token is of none.")
    args: models.CapsuleCreate = call.args
    may_choose_pull = call.policy.check("container:create:image_pull_policy", caller)
    template = capsules_values.template(args.template.model_dump(), may_choose_pull=may_choose_pull)
    if template.runtime is not None:
        call.policy.enforce("container:create:runtime", caller)
    capsule, members = domain.rows(
        template,
        project_id=caller.project_id,
        user_id=caller.user_id,
        new_uuid=lambda: str(uuid4()),
        suffix=container_names.suffix,
        networks=await _networks(call, args.template.spec),
        now=call.control.clock.now(),
    )
    new = control.NewCapsule(capsule, members, template.volumes)
    await control.check_quota(call.control, new)
    return new


async def _networks(call: Call, spec: models.Spec) -> list[dict[str, Any]]:
    """``nets`` as ids; the project's default network when none is named."""
    nets = [net.model_dump(by_alias=True, exclude_none=True) for net in spec.nets or ()]
    external = call.policy.check("network:attach_external_network", call.caller)
    found = await call.control.network.resolve(call.caller, nets, external=external)
    return [asdict(one) for one in found]


async def list_capsules(call: Call) -> Answer:
    """One page; unknown parameters are ignored."""
    with_fault = fault_views.wanted(call)
    all_projects = paging.free_boolean(call, "all_projects")
    if all_projects:
        call.policy.enforce(f"{_RULE}:get_all_all_projects", call.caller)
    wanted = paging.read(call, SORTABLE)
    for name in views.hidden(call) & {wanted.sort_key}:  # what a caller may not see cannot be sorted by
        call.policy.enforce(f"{views.RULE}:{name}", call.caller)
    found = await capsules_lookup.page(call.control, call.caller, wanted, all_projects=all_projects)
    following = paging.next_link(call, "capsules", wanted, len(found), found[-1][0].uuid if found else None)
    shown = [views.single(call, capsule, members) for capsule, members in found]
    if with_fault:
        await fault_views.add(call, shown, [fault_views.of_container(capsule) for capsule, _ in found])
    return Answer({"capsules": shown, "next": following})


async def show(call: Call) -> Answer:
    """The stored rows; the node's watcher keeps them fresh. Of a host that is down they are the last known state."""
    all_projects = paging.free_boolean(call, "all_projects")
    if all_projects:
        call.policy.enforce(f"{_RULE}:get_one_all_projects", call.caller)
    wanted, with_fault = waiting.read(call), fault_views.wanted(call)
    found = await capsules_lookup.find(call.control, call.caller, call.path["capsule_ident"], all_projects=all_projects)
    capsule, members = found
    _enforce_on(call, f"{_RULE}:get", capsule)
    if wanted is not None and await waiting.until(call, capsule, wanted):
        capsule, members = await capsules_lookup.again(call.control, capsule.uuid)
    shown = views.single(call, capsule, members)
    if with_fault:
        await fault_views.add(call, [shown], [fault_views.of_container(capsule)])
    silence = await host_silence(call.control, capsule.host) if capsule.host else None
    if silence is not None:
        fault_views.host_down(shown)
        shown = views.last_known(shown, silence)
    return Answer(shown)


async def delete(call: Call) -> Answer:
    """204 before the work is done, whatever the status (S3.2, S3.4)."""
    args: models.CapsuleDelete = call.args
    _check_projects(call, all_projects=args.all_projects)
    await _delete(call, call.path["capsule_ident"], all_projects=args.all_projects)
    return Answer()


async def delete_several(call: Call) -> Answer:
    """Each as by itself; nothing is deleted that is not named."""
    args: models.CapsuleDeleteSeveral = call.args
    _check_projects(call, all_projects=args.all_projects)
    return await several.delete_each(call, args.ids, lambda ident: _delete(call, ident, all_projects=args.all_projects))


def _check_projects(call: Call, *, all_projects: bool) -> None:
    if all_projects:
        call.policy.enforce(f"{_RULE}:delete_all_projects", call.caller)


async def _delete(call: Call, ident: str, *, all_projects: bool) -> None:
    capsule, _ = await capsules_lookup.find(call.control, call.caller, ident, all_projects=all_projects)
    _enforce_on(call, f"{_RULE}:delete", capsule)
    manner = containers_delete.Manner(any_status=True)
    await containers_delete.delete(call.control, asked(call), capsule, manner)


def _enforce_on(call: Call, rule: str, row: Container) -> None:
    call.policy.enforce(rule, call.caller, {"project_id": row.project_id, "user_id": row.user_id})


_ONE = "/capsules/{capsule_ident}"
_OLD = Version(1, 31)
_NEW = Version(1, 32)
_EXAMPLE = {
    "template": {
        "kind": "capsule",
        "capsuleVersion": "beta",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "restartPolicy": "Always",
            "containers": [
                {
                    "image": "nginx",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {"requests": {"cpu": 0.5, "memory": 256}},
                }
            ],
        },
    }
}


def _routes() -> list[Route]:
    """The same handlers for both shapes; the OpenAPI document shows the newest."""
    found = []
    for lowest, highest, members in ((Version(1, 1), _OLD, views.LEGACY), (_NEW, None, views.MEMBERS)):
        versions: dict[str, Any] = {"min_version": lowest} | ({} if highest is None else {"max_version": highest})
        one = obj(members, views.OPTIONAL)
        shown = {**members, fault_views.MEMBER: fault_views.SCHEMA}
        optional = views.OPTIONAL | {fault_views.MEMBER}
        found += [
            Route(
                "GET", "/capsules", "capsule.list", list_capsules, policy=f"{_RULE}:get_all",
                answer=listing("capsules", shown, optional=optional), summary="List capsules", raises=(404,),
                parameters=(*paging.DOCUMENTED, "all_projects", fault_views.PARAMETER), **versions,
            ),
            Route(
                "POST", "/capsules", "capsule.create", create, 202, policy=f"{_RULE}:create", model=models.create,
                json_only=True, answer=one, summary="Create a capsule and run it", raises=(404, 409), locates=True,
                example=_EXAMPLE, headers=(idempotent.HEADER,), **versions,
            ),
            Route(
                "GET", _ONE, "capsule.show", show, answer=obj(shown, optional),
                summary="Show a capsule, perhaps once it has a status", raises=(404, 409),
                parameters=("all_projects", fault_views.PARAMETER, *waiting.PARAMETERS), **versions,
            ),
        ]  # fmt: skip
    return found


ROUTES: list[Route] = [
    *_routes(),
    Route(
        "DELETE", "/capsules", "capsule.delete_several", delete_several, policy=f"{_RULE}:delete",
        model=models.CapsuleDeleteSeveral, answer=several.ANSWER, summary="Delete several capsules",
    ),
    Route(
        "DELETE", _ONE, "capsule.delete", delete, 204, model=models.CapsuleDelete, summary="Delete a capsule",
        raises=(404, 409),
    ),
]  # fmt: skip
