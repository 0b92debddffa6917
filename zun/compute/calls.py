"""What the API asks the node to answer at once: logs, execute, top, stats, resize, update."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from zun.bus.base import Handler
from zun.compute.holdings.image import in_registry
from zun.compute.node import Node
from zun.domain.errors import (
    Conflict,
    EngineConflict,
    EngineError,
    EngineNotFound,
    EngineUnreachable,
    ImageFailed,
    ImagePullFailed,
    Unavailable,
)
from zun.domain.image import parse_reference
from zun.image.base import ImageRequest

Params = Mapping[str, Any]


class Calls:
    """Handlers for ``Bus.serve``."""

    def __init__(self, node: Node, sync_soon: Callable[[], None]) -> None:
        self._node = node
        self._sync_soon = sync_soon

    def handlers(self) -> dict[str, Handler]:
        """Method name -> handler."""
        methods = (self.logs, self.execute, self.top, self.stats, self.resize, self.update, self.image_exists)
        return {method.__name__: self._translated(method) for method in methods}

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
            except EngineError as error:
                raise Conflict(error.message) from error

        return handler

    async def logs(self, params: Params) -> str:
        return await self._node.runtime.logs(
            params["uuid"],
            stdout=params["stdout"],
            stderr=params["stderr"],
            timestamps=params["timestamps"],
            tail=params.get("tail"),
            since=params.get("since"),
        )

    async def execute(self, params: Params) -> dict[str, Any]:
        limit = float(self._node.conf.docker.execute_timeout)
        return dataclasses.asdict(await self._node.runtime.execute(params["uuid"], params["command"], limit))

    async def top(self, params: Params) -> Mapping[str, Any]:
        return await self._node.runtime.top(params["uuid"], params.get("ps_args"))

    async def stats(self, params: Params) -> dict[str, Any]:
        return dataclasses.asdict(await self._node.runtime.stats(params["uuid"]))

    async def resize(self, params: Params) -> None:
        await self._node.runtime.resize(params["uuid"], height=params["height"], width=params["width"])

    async def image_exists(self, params: Params) -> bool:
        """Could this node get the image? Asked before a container's row exists. Raises Unavailable when the registry
        cannot tell."""
        driver = self._node.images.get(params["image_driver"])
        if driver is None:
            return False
        policy = (params.get("image_pull_policy") or "always").lower()
        try:
            reference = parse_reference(params["image"])
            reference, auth = await in_registry(self._node, params.get("registry_id"), reference)
            return await driver.exists(ImageRequest(str(reference), policy, auth))
        except ImagePullFailed as error:
            raise Unavailable(f"It cannot be told now whether the image exists: {error.message}") from error
        except ImageFailed:
            return False

    async def update(self, params: Params) -> None:
        """Limits of a living container: ``cpu`` in cores, ``memory`` in MiB, None = unchanged."""
        cpu = params.get("cpu")
        await self._node.runtime.update(
            params["uuid"],
            cpu_millicores=None if cpu is None else round(cpu * 1000),
            memory_mib=params.get("memory"),
            swap_mib=self._node.conf.default_memory_swap,
        )
