"""Images on hosts: pulled ahead of time, listed, removed; and the search for images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from zun.control import container_image
from zun.control.base import Control
from zun.control.container_record import Asked, deadline_seconds
from zun.control.containers_lookup import host_is_up
from zun.domain.caller import Caller
from zun.domain.errors import Conflict, HostUnreachable, ImageAlreadyExists, ImageNotFound, Invalid, InvalidValue
from zun.domain.image import asked_reference
from zun.domain.operation import Kind
from zun.domain.service import COMPUTE
from zun.store import compute_nodes, operations
from zun.store import images as store
from zun.store import services as service_store

MOST_HOSTS_ASKED = 3
"""Nodes that are asked in turn, before a search is given up."""


async def pull(control: Control, asked: Asked, repo: str, host: str) -> Mapping[str, Any]:
    """Record the image and leave the pull to the host. Raises InvalidValue for an unknown host or what is no
    reference, ImageNotFound, ImageAlreadyExists (the same name on the same host)."""
    async with control.db.read() as connection:
        node = await compute_nodes.find(connection, host)
    if node is None:
        raise InvalidValue(f"The host {host} does not exist.")
    driver: str = control.conf.default_image_driver
    name, tag = _parted(control, driver, repo)
    row = {
        "uuid": str(uuid4()),
        "project_id": asked.caller.project_id or "",
        "user_id": asked.caller.user_id,
        "host": node["hostname"],
        "repo": name,
        "tag": tag,
        "image_driver": driver,
        "image_uuid": await container_image.resolve(control, asked.caller, driver, repo),
        "created_at": control.clock.now(),
    }

    async def record(connection: AsyncConnection) -> None:
        await store.insert(connection, row)
        await _queue(connection, control, asked, row, Kind.IMAGE_PULL)

    try:
        await control.db.run(record)
    except sa.exc.IntegrityError:
        raise ImageAlreadyExists(f"The image {repo} already exists on host {row['host']}.") from None
    await control.bus.ring(row["host"])
    return {**row, "image_id": None, "size": None}


async def find(control: Control, uuid: str) -> Mapping[str, Any]:
    """Raises ImageNotFound (400 by contract), also for what is no uuid."""
    async with control.db.read() as connection:
        row = await store.get(connection, uuid)
    if row is None:
        raise ImageNotFound(f"Image {uuid} could not be found.")
    return row


async def page(
    control: Control, caller: Caller, *, limit: int, sort_key: str, descending: bool, marker: str | None
) -> Sequence[Mapping[str, Any]]:
    """The caller's project's images; raises ImageNotFound for an unknown marker."""
    scope = {"project_id": caller.project_id} if caller.project_id else {"user_id": caller.user_id}
    try:
        async with control.db.read() as connection:
            return await store.page(
                connection, limit=limit, sort_key=sort_key, descending=descending, marker=marker, scope=scope
            )
    except LookupError:
        raise ImageNotFound(f"Image {marker} could not be found.") from None


async def delete(control: Control, asked: Asked, uuid: str) -> None:
    """Leave the removal to the host; the record goes with it. Raises ImageNotFound, and Conflict while a container of
    the host is made of it. A pull still at work is called off."""
    row = await find(control, uuid)

    async def announce(connection: AsyncConnection) -> bool:
        if row["image_id"] and await store.is_used(connection, row["host"], row["image_id"]):
            raise Conflict(f"Image {row['uuid']} is used by a container on host {row['host']}.")
        waiting = await operations.unfinished_of_container(connection, row["uuid"])
        if any(operation.kind == Kind.IMAGE_DELETE for operation in waiting):
            return False
        if await compute_nodes.find(connection, row["host"]) is None:  # gone for good, with its engine
            await store.delete(connection, row["uuid"])
            return False
        last = await _queue(connection, control, asked, row, Kind.IMAGE_DELETE)
        await operations.cancel_unfinished(connection, row["uuid"], control.clock.now(), before=last)
        return True

    if await control.db.run(announce):
        await control.bus.ring(row["host"])


async def search(control: Control, caller: Caller, driver: str, text: str, *, exact: bool) -> Sequence[Any]:
    """Glance with the caller's own rights; a registry through a node, which is what reaches registries. Raises
    Invalid where that cannot be searched, Unavailable."""
    images = control.images.get(driver)
    if images is None:
        raise Invalid(f"The image driver '{driver}' is not offered here.")
    if driver != "docker":
        return await images.search(caller, text, exact=exact)
    asked_reference(text)
    deadline = float(control.conf.rpc_response_timeout)
    hosts = await _hosts_up(control)
    if not hosts:
        raise Conflict("No host is up that could ask the registry.")
    for host in hosts:
        try:
            found: Sequence[Any] = await control.bus.call(
                host, "image_search", {"image_driver": driver, "text": text, "exact": exact}, deadline
            )
        except HostUnreachable:
            continue
        return found
    raise HostUnreachable("No host answered the search in time. Try again.")


async def _hosts_up(control: Control) -> Sequence[str]:
    async with control.db.read() as connection:
        rows = await service_store.list_all(connection, COMPUTE)
    found: list[str] = []
    for row in rows:
        if len(found) < MOST_HOSTS_ASKED and await host_is_up(control, row["host"]):
            found.append(row["host"])
    return found


def _parted(control: Control, driver: str, repo: str) -> tuple[str, str]:
    """Repository and tag as they are shown; images of Glance have no tag in their name. Raises InvalidValue."""
    if driver != "docker":
        return repo, ""
    parsed = asked_reference(repo).in_registry(control.conf.docker.default_registry)
    if len(parsed.name) > 255:
        raise InvalidValue(f"The name {parsed.name[:64]}… is longer than 255 characters.")
    return parsed.name, parsed.digest or parsed.tag or "latest"


async def _queue(connection: AsyncConnection, control: Control, asked: Asked, row: Mapping[str, Any], kind: str) -> int:
    now = control.clock.now()
    return await operations.insert(
        connection,
        container_uuid=row["uuid"],
        kind=kind,
        host=row["host"],
        request_id=asked.request_id,
        user_id=asked.caller.user_id,
        project_id=row["project_id"],
        params={},
        now=now,
        deadline=now + timedelta(seconds=deadline_seconds(control, kind)),
    )
