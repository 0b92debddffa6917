"""What the API asks the node to answer at once: logs, execute, sessions, top, stats, resize, update."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from zun.bus.base import Handler
from zun.compute.archives import Archives
from zun.compute.capsules.holdings import engine_of
from zun.compute.holdings.image import image_request
from zun.compute.log_pieces import LogPieces
from zun.compute.node import Node
from zun.domain.errors import (
    Conflict,
    EngineConflict,
    EngineNotFound,
    EngineUnreachable,
    ImageFailed,
    ImagePullFailed,
    NodeError,
    Unavailable,
)
from zun.domain.operation import CAPSULE
from zun.runtime.base import Runtime
from zun.runtime.pods import Pods

Params = Mapping[str, Any]


class Calls:
    """Handlers for ``Bus.serve``."""

    def __init__(self, node: Node, sync_soon: Callable[[], None]) -> None:
        self._node = node
        self._sync_soon = sync_soon
        self._archives = Archives(node)
        self._log_pieces = LogPieces(node)

    def handlers(self) -> dict[str, Handler]:
        """Method name -> handler."""
        own = (self.logs, self.execute, self.top, self.stats, self.resize, self.update, self.report)
        sessions = (self.open_exec, self.resize_exec)
        images = (self.image_exists, self.image_search)
        of = self._archives
        archives = (of.get_archive, of.put_archive, of.read_transfer, of.write_transfer, of.end_transfer)
        networks = (self.make_network, self.remove_network)
        handlers = (*own, self._log_pieces.log_piece, *sessions, *images, *archives, *networks)
        return {method.__name__: self._translated(method) for method in handlers}

    def close(self) -> None:
        """Forget what is on its way."""
        self._archives.close()

    def _translated(self, method: Callable[[Params], Awaitable[Any]]) -> Handler:
        """The engine's refusals as what an API caller can act on: 409 with its words, 503 when it is away."""

        async def handler(params: Params) -> Any:
            try:
                return await method(params)
            except EngineUnreachable as error:
                raise Unavailable(error.message) from error
            except EngineNotFound as error:
                self._sync_soon()
                raise Conflict(error.text) from error
            except EngineConflict as error:
                self._sync_soon()
                raise Conflict(error.text) from error
            except NodeError as error:
                raise Conflict(error.message) from error

        return handler

    def _engine(self, params: Params) -> Runtime | Pods:
        """Of a container, or of a capsule's member. Raises EngineUnreachable."""
        return engine_of(self._node) if params.get(CAPSULE) else self._node.runtime

    async def report(self, params: Params) -> None:
        """An administrator changed what Placement has to know of this node (S6.5)."""
        await self._node.report_now()

    async def logs(self, params: Params) -> str:
        return await self._engine(params).logs(
            params["uuid"],
            stdout=params["stdout"],
            stderr=params["stderr"],
            timestamps=params["timestamps"],
            tail=params.get("tail"),
            since=params.get("since"),
        )

    async def execute(self, params: Params) -> dict[str, Any]:
        limit = float(self._node.conf.docker.execute_timeout)
        return dataclasses.asdict(await self._engine(params).execute(params["uuid"], params["command"], limit))

    async def open_exec(self, params: Params) -> str:
        """An interactive command is to run in ``uuid``, with or without ``tty`` and ``stdin``: its exec id (S4.2)."""
        uuid, flags = params["uuid"], {"tty": params["tty"], "stdin": params["stdin"]}
        exec_id = await self._engine(params).open_exec(uuid, params["command"], **flags)
        self._node.execs.asked(exec_id, uuid)
        return exec_id

    async def resize_exec(self, params: Params) -> None:
        """``height`` and ``width`` of the terminal of ``exec_id`` in ``uuid``. Raises InvalidValue (400) for an unknown
        one (S4.9)."""
        size = {"height": params["height"], "width": params["width"]}
        await self._node.execs.resize(params["uuid"], params["exec_id"], **size)

    async def top(self, params: Params) -> Mapping[str, Any]:
        if params.get(CAPSULE):
            raise Conflict("The processes of a capsule's container cannot be listed; execute ps in it.")
        return await self._node.runtime.top(params["uuid"], params.get("ps_args"))

    async def stats(self, params: Params) -> dict[str, Any]:
        return dataclasses.asdict(await self._engine(params).stats(params["uuid"]))

    async def resize(self, params: Params) -> None:
        """Terminal of the main process."""
        size = {"height": params["height"], "width": params["width"]}
        await self._engine(params).resize(params["uuid"], **size)

    async def image_exists(self, params: Params) -> bool:
        """Could this node get the image? Asked before a container's row exists. Raises Unavailable when the registry
        cannot tell."""
        driver = self._node.pod_images if params.get(CAPSULE) else self._node.images.get(params["image_driver"])
        if driver is None:
            return False
        policy = (params.get("image_pull_policy") or "always").lower()
        try:
            request = await image_request(
                self._node, params.get("registry_id"), driver.name, params["image"], policy, params.get("image_uuid")
            )
            return await driver.exists(request)
        except ImagePullFailed as error:
            raise Unavailable(f"It cannot be told now whether the image exists: {error.message}") from error
        except ImageFailed:
            return False

    async def image_search(self, params: Params) -> list[Mapping[str, Any]]:
        """Images of a registry that this node reaches."""
        driver = self._node.images.get(params["image_driver"])
        if driver is None:
            return []
        return list(await driver.search(None, params["text"], exact=params["exact"]))

    async def make_network(self, params: Params) -> str:
        """The engine's network for ``network_id``; its name there."""
        return await self._node.network.make_network(params["network_id"])

    async def remove_network(self, params: Params) -> bool:
        """Was there one?"""
        return await self._node.network.remove_network(params["network_id"])

    async def update(self, params: Params) -> None:
        """Limits of a living container: ``cpu`` in cores, ``memory`` in MiB, None = unchanged."""
        cpu = params.get("cpu")
        await self._node.runtime.update(
            params["uuid"],
            cpu_millicores=None if cpu is None else round(cpu * 1000),
            memory_mib=params.get("memory"),
            swap_mib=self._node.conf.default_memory_swap,
        )
