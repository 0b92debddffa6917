"""Routes of quotas: everybody reads the own project's, administrators all, and set them."""

from __future__ import annotations

from zun.api.call import Answer, Call
from zun.api.schemas import INTEGER, NULL, NUMBER, obj
from zun.api.table import Route
from zun.api.v1.models.quotas import Limits, QuotaShow
from zun.control import quotas_admin
from zun.domain.errors import InvalidQuotaValue
from zun.store.quotas import DEFAULT_CLASS, RESOURCES


def _project(call: Call, rule: str | None = None) -> str:
    """The project of the path; ``rule`` is checked on it."""
    project_id = call.path["project_id"]
    if rule:
        call.policy.enforce(rule, call.caller, {"project_id": project_id, "user_id": call.caller.user_id})
    return project_id


async def show(call: Call) -> Answer:
    project_id = _project(call, "quota:get")
    args: QuotaShow = call.args
    if args.usages:
        return Answer(await quotas_admin.usages(call.control, project_id))
    return Answer(await quotas_admin.limits(call.control, project_id))


async def show_defaults(call: Call) -> Answer:
    _project(call, "quota:get_default")
    return Answer(await quotas_admin.class_limits(call.control, DEFAULT_CLASS))


async def update(call: Call) -> Answer:
    project_id = _project(call)
    check_owner(project_id)
    args: Limits = call.args
    return Answer(await quotas_admin.set_limits(call.control, project_id, args.given()))


async def delete(call: Call) -> Answer:
    await quotas_admin.delete_limits(call.control, _project(call))
    return Answer()


def check_owner(name: str) -> None:
    """Raise InvalidQuotaValue for a project or class name that cannot be stored."""
    if len(name) > 255:
        raise InvalidQuotaValue("The name of a project or quota class has at most 255 characters.")


LIMITS = obj(dict.fromkeys(RESOURCES, INTEGER))
_USED = obj({"limit": INTEGER, "in_use": NUMBER})

ROUTES = [
    Route(
        "GET",
        "/quotas/{project_id}",
        "quota.show",
        show,
        model=QuotaShow,
        answer={"anyOf": [LIMITS, obj(dict.fromkeys(RESOURCES, _USED))]},
        summary="Show limits, or limits and use, of a project",
    ),
    Route(
        "GET",
        "/quotas/{project_id}/defaults",
        "quota.defaults",
        show_defaults,
        answer=LIMITS,
        summary="Show the default limits",
    ),
    Route(
        "PUT",
        "/quotas/{project_id}",
        "quota.update",
        update,
        policy="quota:update",
        model=Limits,
        answer=LIMITS,
        summary="Change the limits of a project",
    ),
    Route(
        "DELETE",
        "/quotas/{project_id}",
        "quota.delete",
        delete,
        policy="quota:delete",
        answer=NULL,
        summary="Return a project to the default limits",
    ),
]
