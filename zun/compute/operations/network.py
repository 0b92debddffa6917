"""Join and leave networks, and change security groups, of a container that the engine has."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from zun.compute import observe
from zun.compute.operations import common
from zun.compute.work import Outcome, Work
from zun.domain.container import RequestedNetwork
from zun.domain.errors import EngineNotFound, NetworkSetupFailed
from zun.domain.operation import Kind


async def attach(work: Work) -> Outcome:
    """Port and interface; from then on the network is one of those asked for, which rebuild and healing make again."""
    row, requested = work.row, RequestedNetwork(**work.params["requested"])
    held = list(row.requested_networks or ())
    if any(entry["network_id"] == requested.network_id for entry in held):
        return Outcome(error=f"The container is on network {requested.network_id} already.")
    if row.container_id is None:
        return Outcome(error="The container was not made, so it joins no network.")
    async with work.journal.step("attach_network"):
        attachments = await work.node.network.attach(row, requested)
    addresses = {**(row.addresses or {}), **observe.addresses_of(list(attachments))}
    return Outcome({"requested_networks": [*held, asdict(requested)], "addresses": addresses})


async def fail_attach(work: Work, error: Exception) -> Outcome:
    """What was made for it is given back; the container goes on as it was."""
    network_id = str(work.params["requested"]["network_id"])
    async with work.journal.step("detach_network"):
        await work.node.network.detach(work.row, network_id)
    return await fail(work, error)


async def detach(work: Work) -> Outcome:
    """Interface and port; also when the engine lost the container meanwhile."""
    row, network_id = work.row, str(work.params["network_id"])
    async with work.journal.step("detach_network"):
        await work.node.network.detach(row, network_id)
    held = [entry for entry in row.requested_networks or () if entry["network_id"] != network_id]
    addresses = {name: items for name, items in (row.addresses or {}).items() if name != network_id}
    return Outcome({"requested_networks": held, "addresses": addresses})


async def change_groups(work: Work) -> Outcome:
    """All ports of the container at once; what the row lists is what the next port gets too."""
    group, adding = str(work.params["group_id"]), work.operation.kind == Kind.ADD_SECURITY_GROUP
    async with work.journal.step("security_groups"):
        change: dict[str, Any] = {"add": [group]} if adding else {"remove": [group]}
        await work.node.network.change_security_groups(work.uuid, **change)
    held = list(work.row.security_groups or work.params.get("default") or ())
    now = [one for one in held if one != group] + ([group] if adding else [])
    return Outcome({"security_groups": now})


async def fail(work: Work, error: Exception) -> Outcome:
    """The status is the engine's and stays; the action is noted as failed, and why."""
    if isinstance(error, EngineNotFound):
        work.node.unseen.add(work.uuid)  # looked at when this is over
        error = NetworkSetupFailed(f"No such container: {work.row.container_id} in {work.node.runtime.name}")
    reason = common.reason_of(error)
    return Outcome({"status_reason": reason}, error=reason)
