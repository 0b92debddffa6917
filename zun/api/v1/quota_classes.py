"""Routes of quota classes (administrators). Only the class ``default`` has an effect."""

from __future__ import annotations

from zun.api.call import Answer, Call
from zun.api.table import Route
from zun.api.v1.models.quotas import Limits
from zun.api.v1.quotas import LIMITS, check_owner
from zun.control import quotas_admin


async def show(call: Call) -> Answer:
    return Answer(await quotas_admin.class_limits(call.control, call.path["quota_class_name"]))


async def update(call: Call) -> Answer:
    name = call.path["quota_class_name"]
    check_owner(name)
    args: Limits = call.args
    return Answer(await quotas_admin.set_class_limits(call.control, name, args.given()))


ROUTES = [
    Route(
        "GET",
        "/quota_classes/{quota_class_name}",
        "quota_class.show",
        show,
        policy="quota_class:get",
        answer=LIMITS,
        summary="Show the limits of a quota class",
    ),
    Route(
        "PUT",
        "/quota_classes/{quota_class_name}",
        "quota_class.update",
        update,
        policy="quota_class:update",
        model=Limits,
        answer=LIMITS,
        summary="Change the limits of a quota class",
    ),
]
