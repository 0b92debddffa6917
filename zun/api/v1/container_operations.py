"""Routes of what is done with a container: power, questions to the node, and what later releases add."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from zun.api.call import Answer, Call, Handler, Version
from zun.api.schemas import NULL, TEXT
from zun.api.table import Route
from zun.api.v1.container_answers import ADDRESSES, ARCHIVE, COMMITTED, CONTAINER, EXECUTED, PORTS, STATS, TOP
from zun.api.v1.container_find import asked, find, not_offered
from zun.api.v1.container_views import single
from zun.api.v1.models import container_operations as models
from zun.api.v1.models import containers as container_models
from zun.control import container_values, containers_power, containers_queries, containers_update
from zun.control.container_networks import by_address, by_port
from zun.control.containers_queries import ask_node
from zun.domain.container import Container
from zun.domain.errors import Base64Exception, Invalid, NoInteractiveFlag
from zun.domain.image import parse_reference
from zun.domain.lifecycle import require
from zun.domain.operation import Kind


def power(kind: Kind) -> Handler:
    """The handler of an operation that the node does later; its parameters are the model's."""

    async def handler(call: Call) -> Answer:
        row = await find(call, f"container:{kind}")
        params: Mapping[str, Any] = call.args.model_dump() if call.args is not None else {}
        await containers_power.request(call.control, asked(call), row, kind, params)
        return Answer()

    return handler


async def rebuild(call: Call) -> Answer:
    """Started afterwards only if it was Running."""
    args: models.Rebuild = call.args
    row = await find(call, "container:rebuild")
    conf, params = call.control.conf, {}
    if args.image_driver is not None:
        params["image_driver"] = container_values.image_driver(
            args.image_driver, conf.image_driver_list, row.image_driver
        )
    if args.image:
        if params.get("image_driver", row.image_driver) == "docker":
            parse_reference(args.image)
        params["image"] = args.image
    await containers_power.request(call.control, asked(call), row, Kind.REBUILD, params)
    return Answer()


# -- answered by the node -------------------------------------------------------------------------


async def logs(call: Call) -> Answer:
    """A JSON string with the log text."""
    args: models.Logs = call.args
    row = await _in_state(call, "logs")
    return Answer(await _ask(call, row, "logs", **args.model_dump()))


async def execute(call: Call) -> Answer:
    """Run a command and wait for it."""
    args: models.Execute = call.args
    row = await _in_state(call, "execute")
    command = containers_queries.words(args.command)
    if not args.run or args.interactive:
        raise not_offered("An interactive session")
    result = await _ask(call, row, "execute", command=command)
    return Answer({"output": result["output"], "exit_code": result["exit_code"], "exec_id": None, "proxy_url": None})


async def execute_resize(call: Call) -> Answer:
    """No sessions, so every id is unknown: 400 by contract."""
    await _in_state(call, "execute_resize")
    raise Invalid(f"The exec session {call.args.exec_id} does not exist.")


async def resize(call: Call) -> Answer:
    """Terminal size of the main process."""
    row = await _in_state(call, "resize")
    await _ask(call, row, "resize", height=call.args.h, width=call.args.w)
    return Answer()


async def top(call: Call) -> Answer:
    row = await _in_state(call, "top")
    asked_for = call.args.ps_args
    return Answer(await _ask(call, row, "top", ps_args=None if asked_for in ("None", "") else asked_for))


async def stats(call: Call) -> Answer:
    row = await _in_state(call, "stats")
    return Answer(containers_queries.stats_of(row.name, await _ask(call, row, "stats")))


async def _in_state(call: Call, operation: str) -> Container:
    """The container, when its status permits the operation (S3.1's text)."""
    row = await find(call, f"container:{operation}")
    require(operation, row.uuid, row.status)
    return row


async def _ask(call: Call, row: Container, method: str, **params: Any) -> Any:
    return await ask_node(call.control, call.caller, row, method, {"uuid": row.uuid, **params})


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


# -- checked as the contract says, not offered yet -------------------------------------------------


async def attach(call: Call) -> Answer:
    row = await _in_state(call, "attach")
    if not row.interactive:
        raise NoInteractiveFlag(f"Container {row.uuid} was not created with the interactive flag.")
    raise not_offered("Attaching to a container")


async def get_archive(call: Call) -> Answer:
    await _in_state(call, "get_archive")
    raise not_offered("Copying files from a container")


async def put_archive(call: Call) -> Answer:
    await _in_state(call, "put_archive")
    if call.version >= Version(1, 25):
        try:
            base64.b64decode(call.args.data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Base64Exception("The archive has to be base64.") from error
    raise not_offered("Copying files into a container")


async def commit(call: Call) -> Answer:
    await _in_state(call, "commit")
    raise not_offered("Making an image of a container")


def security_group(operation: str) -> Handler:
    async def handler(call: Call) -> Answer:
        await _in_state(call, operation)
        raise not_offered("Changing the security groups of a container")

    return handler


async def network_detach(call: Call) -> Answer:
    args: models.NetworkDetach = call.args
    row = await find(call, "container:network_detach")
    ports = [item.get("port") for items in (row.addresses or {}).values() for item in items]
    if (args.port and args.port not in ports) and not row.addresses:
        raise Invalid(f"Container {row.uuid} is not attached to port {args.port}.")
    raise not_offered("Detaching a network")


async def network_attach(call: Call) -> Answer:
    await find(call, "container:network_attach")
    raise not_offered("Attaching a network")


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
    _route("GET", "get_archive", get_archive, 200, "Copy out", model=models.GetArchive, answer=ARCHIVE),
    _route("POST", "put_archive", put_archive, 200, "Copy in", model=models.PutArchive, answer=NULL),
    _route(
        "POST", "commit", commit, 202, "Make an image", model=models.Commit, query_only=True, answer=COMMITTED
    ),
    *(
        _route(
            "POST", name, security_group(name), 202, "Change security groups", max_version=Version(1, 14),
            model=models.SecurityGroup, answer=NULL,
        )
        for name in ("add_security_group", "remove_security_group")
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
