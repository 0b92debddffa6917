"""Questions only the node can answer now: logs, execute, top, stats, terminal size, new limits."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from zun.control.base import Control
from zun.control.container_values import require_executable
from zun.control.containers_lookup import require_host
from zun.domain.caller import Caller
from zun.domain.container import Container
from zun.domain.errors import HostUnreachable, InvalidValue


async def ask_node(
    control: Control, caller: Caller, container: Container, method: str, params: Mapping[str, Any]
) -> Any:
    """The node's answer. Raises ContainerHostNotUp, HostUnreachable (host named for admins), or the node's error."""
    host = await require_host(control, caller, container)
    deadline = float(control.conf.rpc_response_timeout)
    try:
        return await control.bus.call(host, method, params, deadline)
    except HostUnreachable as error:
        if caller.is_admin:
            text = f"The host {host} of container {container.uuid} did not answer in time: {error.message}"
        else:  # hosts and brokers are the operator's business
            text = f"The host of container {container.uuid} did not answer in time."
        raise HostUnreachable(text) from error


def words(command: str) -> list[str]:
    """A command line split as a shell does. Raises InvalidValue."""
    try:
        found = shlex.split(command)
    except ValueError as error:
        raise InvalidValue(f"The command cannot be split into words: {error}.") from error
    if not found:
        raise InvalidValue("The command is empty.")
    require_executable("the command", found)
    return found


def stats_of(name: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    """The seven keys clients know, from the node's numbers."""
    usage, limit = float(raw["memory_usage_mib"]), float(raw["memory_limit_mib"])
    return {
        "CONTAINER": name,
        "CPU %": raw["cpu_percent"],
        "MEM USAGE(MiB)": usage,
        "MEM LIMIT(MiB)": limit,
        "MEM %": round(usage / limit * 100, 4) if limit else 0.0,
        "BLOCK I/O(B)": f"{raw['block_read']}/{raw['block_write']}",
        "NET I/O(B)": f"{raw['net_rx']}/{raw['net_tx']}",
    }
