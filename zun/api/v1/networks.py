"""Routes of networks (§16): the engine's networks of the nodes, for administrators."""

from __future__ import annotations

from zun.api.call import Answer, Call, Version
from zun.api.schemas import TEXT, TEXT_OR_NULL, UUID, obj
from zun.api.table import Route
from zun.api.v1.models.networks import NetworkCreate
from zun.control import networks

_FIELDS = ("uuid", "name", "project_id", "user_id", "network_id", "neutron_net_id")


async def create(call: Call) -> Answer:
    """Made on the nodes by the time of the answer."""
    args: NetworkCreate = call.args
    row = await networks.create(call.control, call.caller, args.name, args.neutron_net_id)
    return Answer({name: row[name] for name in _FIELDS})


async def delete(call: Call) -> Answer:
    await networks.delete(call.control, call.path["neutron_net_id"])
    return Answer()


ROUTES: list[Route] = [
    Route(
        "POST",
        "/networks",
        "network.create",
        create,
        policy="network:create",
        model=NetworkCreate,
        json_only=True,
        example={"name": "default", "neutron_net_id": "default"},
        answer=obj(
            {
                "uuid": UUID,
                "name": TEXT_OR_NULL,
                "project_id": TEXT_OR_NULL,
                "user_id": TEXT,
                "network_id": TEXT,
                "neutron_net_id": TEXT,
            }
        ),
        summary="Make a network on the nodes",
        raises=(404, 409),
    ),
    Route(
        "DELETE",
        "/networks/{neutron_net_id}",
        "network.delete",
        delete,
        status=204,
        min_version=Version(1, 27),
        policy="network:delete",
        summary="Remove a network from the nodes",
        raises=(404, 409),
    ),
]
