"""Routes of what is done with a container: power, questions to the node, and what later releases add."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zun.api.call import Answer, Call, Handler, Version
from zun.api.schemas import NULL, TEXT
from zun.api.table import Route
from zun.api.v1 import container_archives
from zun.api.v1.container_answers import ADDRESSES, COMMITTED, CONTAINER, EXECUTED, PORTS, STATS, TOP
from zun.api.v1.container_find import asked, find
from zun.api.v1.container_views import single
from zun.api.v1.models import container_operations as models
from zun.api.v1.models import containers as container_models
from zun.conf import cloud
from zun.control import (
    container_image,
    container_values,
    containers_commit,
    containers_groups,
    containers_networks,
    containers_power,
    containers_queries,
    containers_update,
    sessions,
)
from zun.control.container_networks import by_address, by_port
from zun.control.containers_queries import ask_node
from zun.domain.container import Container
from zun.domain.lifecycle import require
from zun.domain.operation import CAPSULE, Kind


def power(kind: Kind) -> Handler:
    """The handler of an operation that the node does later; its parameters are the model's."""

    async def handler(call: Call) -> Answer:
        row = await find(call, f"container:{kind}")
        params: Mapping[str, Any] = call.args.model_dump() if call.args is not None else {}
        await containers_power.request(call.control, asked(call), row, kind, params)
        return Answer()

    return handler


async def rebuild(call: Call) -> Answer:
    """Started afterwards only if it was Running. Without ``image`` it is made of the very image it has."""
    args: models.Rebuild = call.args
    row = await find(call, "container:rebuild")
    drivers, params = cloud.image_drivers(call.control.conf), dict[str, Any]()
    if args.image_driver is not None:
        params["image_driver"] = container_values.image_driver(args.image_driver, drivers, row.image_driver)
    driver = params.get("image_driver", row.image_driver)
    if args.image or driver != row.image_driver:
        image = args.image or row.image
        uuid = await container_image.resolve(call.control, call.caller, driver, image)
        params |= {"image": image, "image_uuid": uuid}
    await containers_power.request(call.control, asked(call), row, Kind.REBUILD, params)
    return Answer()


# -- answered by the node -------------------------------------------------------------------------


async def logs(call: Call) -> Answer:
    """A JSON string with the log text."""
    args: models.Logs = call.args
    row = await _in_state(call, "logs", members=True)
    return Answer(await _ask(call, row, "logs", **args.model_dump()))


async def execute(call: Call) -> Answer:
    """Run a command and wait for it; with ``run`` false, offer a session with it (S4.1)."""
    args: models.Execute = call.args
    row = await _in_state(call, "execute", members=True)
    command = containers_queries.words(args.command)
    if not args.run:
        offered = await sessions.execute(call.control, asked(call), row, command, interactive=args.interactive)
        return Answer({"output": None, "exit_code": None, "exec_id": offered.exec_id, "proxy_url": offered.proxy_url})
    result = await _ask(call, row, "execute", command=command)
    return Answer({"output": result["output"], "exit_code": result["exit_code"], "exec_id": None, "proxy_url": None})


async def execute_resize(call: Call) -> Answer:
    """Terminal size of a session; an unknown one is 400 (S4.9)."""
    args: models.ExecuteResize = call.args
    row = await _in_state(call, "execute_resize", members=True)
    await sessions.resize_exec(call.control, asked(call), row, args.exec_id, height=args.h, width=args.w)
    return Answer()


async def attach(call: Call) -> Answer:
    """A JSON string with the address of a session with the main process."""
    row = await _in_state(call, "attach", members=True)
    return Answer((await sessions.attach(call.control, asked(call), row)).proxy_url)


async def resize(call: Call) -> Answer:
    """Terminal size of the main process."""
    row = await _in_state(call, "resize", members=True)
    await _ask(call, row, "resize", height=call.args.h, width=call.args.w)
    return Answer()


async def top(call: Call) -> Answer:
    row = await _in_state(call, "top", members=True)
    asked_for = call.args.ps_args
    return Answer(await _ask(call, row, "top", ps_args=None if asked_for in ("None", "") else asked_for))


async def stats(call: Call) -> Answer:
    row = await _in_state(call, "stats", members=True)
    return Answer(containers_queries.stats_of(row.name, await _ask(call, row, "stats")))


async def _in_state(call: Call, operation: str, *, members: bool = False) -> Container:
    """The container, when its status permits the operation (S3.1's text)."""
    row = await find(call, f"container:{operation}", members=members)
    require(operation, row.uuid, row.status)
    return row


async def _ask(call: Call, row: Container, method: str, **params: Any) -> Any:
    of_capsule = {CAPSULE: True} if row.capsule_uuid else {}
    return await ask_node(call.control, call.caller, row, method, {"uuid": row.uuid, **params, **of_capsule})


# -- size, networks -------------------------------------------------------------------------------


async def resize_container(call: Call) -> Answer:
    """202 with the old values, as clients know it; done before the answer, so a refusal is told and not lost."""
    row = await find(call, "container:resize_container")
    require("resize_container", row.uuid, row.status)
    await containers_update.update(call.control, asked(call), row, call.args.given())
    return Answer(await single(call, row))


async def network_list_old(call: Call) -> Answer:
    """One entry an address (up to 1.17)."""
    row = await find(call, None)
    return Answer({"networks": by_address(row.addresses)})


async def network_list(call: Call) -> Answer:
    """One entry a port."""
    row = await find(call, None)
    return Answer({"networks": by_port(row.addresses)})


async def network_attach(call: Call) -> Answer:
    """Joined by the node later, though the answer is 200 by contract."""
    args: models.NetworkAttach = call.args
    row = await find(call, "container:network_attach")
    external = call.policy.check("network:attach_external_network", call.caller)
    await containers_networks.attach(
        call.control, asked(call), row, network=args.network, port=args.port, fixed_ip=args.fixed_ip, external=external
    )
    return Answer()


async def network_detach(call: Call) -> Answer:
    args: models.NetworkDetach = call.args
    row = await find(call, "container:network_detach")
    await containers_networks.detach(call.control, asked(call), row, network=args.network, port=args.port)
    return Answer()


def security_group(kind: Kind) -> Handler:
    """The handler that adds or removes a group."""

    async def handler(call: Call) -> Answer:
        row = await find(call, f"container:{kind}")
        await containers_groups.change(call.control, asked(call), row, kind, call.args.name)
        return Answer()

    return handler


async def commit(call: Call) -> Answer:
    """The id of an image that is on record already; its data comes later."""
    args: models.Commit = call.args
    row = await find(call, "container:commit")
    uuid = await containers_commit.commit(call.control, asked(call), row, args.repository, args.tag or "latest")
    return Answer({"uuid": uuid})


_ONE = "/containers/{container_ident}"


def _route(method: str, name: str, handler: Handler, status: int, summary: str, **more: Any) -> Route:
    return Route(
        method, f"{_ONE}/{name}", f"container.{name}", handler, status, summary=summary, raises=(404, 409), **more
    )


ROUTES: list[Route] = [
    _route("POST", "start", power(Kind.START), 202, "Start", answer=NULL),
    _route("POST", "stop", power(Kind.STOP), 202, "Stop", model=models.Timeout, answer=NULL),
    _route("POST", "reboot", power(Kind.REBOOT), 202, "Restart", model=models.Timeout, answer=NULL),
    _route("POST", "pause", power(Kind.PAUSE), 202, "Freeze all processes", answer=NULL),
    _route("POST", "unpause", power(Kind.UNPAUSE), 202, "Let frozen processes go on", answer=NULL),
    _route("POST", "kill", power(Kind.KILL), 202, "Send a signal", model=models.Kill, answer=NULL),
    _route("POST", "rebuild", rebuild, 202, "Make anew, perhaps of another image", model=models.Rebuild, answer=NULL),
    _route("GET", "logs", logs, 200, "Log text", model=models.Logs, answer=TEXT),
    _route("POST", "execute", execute, 200, "Run a command inside", model=models.Execute, answer=EXECUTED),
    _route(
        "POST", "execute_resize", execute_resize, 200, "Terminal size of a session", model=models.ExecuteResize,
        answer=NULL,
    ),
    _route("POST", "resize", resize, 200, "Terminal size of the main process", model=models.Resize, answer=NULL),
    _route("GET", "top", top, 200, "Processes", model=models.Top, answer=TOP),
    _route("GET", "stats", stats, 200, "Use of cpu, memory, block devices, network", answer=STATS),
    _route(
        "POST", "resize_container", resize_container, 202, "Change cpu and memory", min_version=Version(1, 19),
        model=container_models.update, answer=CONTAINER,
    ),
    _route(
        "GET", "network_list", network_list_old, 200, "Addresses", min_version=Version(1, 13),
        max_version=Version(1, 17), answer=ADDRESSES,
    ),
    _route("GET", "network_list", network_list, 200, "Ports", min_version=Version(1, 18), answer=PORTS),
    _route("GET", "attach", attach, 200, "A session with the main process", answer=TEXT),
    *container_archives.ROUTES,
    _route(
        "POST", "commit", commit, 202, "Make an image", model=models.Commit, query_only=True, answer=COMMITTED
    ),
    *(
        _route(
            "POST", str(name), security_group(name), 202, "Change security groups", max_version=Version(1, 14),
            model=models.SecurityGroup, answer=NULL,
        )
        for name in (Kind.ADD_SECURITY_GROUP, Kind.REMOVE_SECURITY_GROUP)
    ),
    _route(
        "POST", "network_detach", network_detach, 202, "Leave a network", min_version=Version(1, 6),
        model=models.NetworkDetach, query_only=True, answer=NULL,
    ),
    _route(
        "POST", "network_attach", network_attach, 200, "Join a network", min_version=Version(1, 8),
        model=models.NetworkAttach, answer=NULL,
    ),
]  # fmt: skip
