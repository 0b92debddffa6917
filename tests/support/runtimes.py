"""Runtimes under one contract: what a test needs beside the port, for the real engine and for the simulated one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Network, ip_network
from typing import Any, cast
from uuid import uuid4

import httpx

from tests.support.engine import Engine
from tests.support.subnets import SubnetClaim
from tests.support.wait import eventually
from zun.conf import load
from zun.domain.observed import Attachment, EngineNetwork, EngineSpec, Observed
from zun.runtime.base import Runtime
from zun.runtime.docker import DockerRuntime
from zun.runtime.simulated import SimulatedRuntime

FOREVER = ["sleep", "3600"]


def conf_with(**docker: Any) -> Any:
    """The default configuration with options of [docker] replaced."""
    conf = load(files=[])
    for name, value in docker.items():
        conf.set_override(name, value, group="docker")
    return conf


class Bench:
    """A runtime with an owner of its own; ``image`` is in it."""

    runtime: Runtime
    real = False

    def __init__(self, image: str) -> None:
        self.image = image
        self.domain = f"t{uuid4().hex[:12]}.invalid"
        """Registry part of names of images that the test makes."""
        self.owner = f"test-{uuid4().hex[:12]}/host"
        self.prefix = f"zun-test-{uuid4().hex[:8]}"
        self.claim = SubnetClaim()
        self._subnets = IPv4Network(self.claim.cidr).subnets(new_prefix=24)

    def spec(self, **fields: Any) -> EngineSpec:
        plain = EngineSpec(str(uuid4()), self.owner, self.image, "a-name", command=FOREVER)
        return replace(plain, **fields)

    async def created(self, **fields: Any) -> str:
        spec = self.spec(**fields)
        await self.runtime.create(spec)
        return spec.uuid

    async def running(self, **fields: Any) -> str:
        uuid = await self.created(**fields)
        await self.runtime.start(uuid)
        return uuid

    def network(self) -> EngineNetwork:
        subnet = next(self._subnets)
        return EngineNetwork(f"{self.prefix}-{uuid4().hex[:6]}", str(subnet), str(subnet[1]))

    def attachment(self, network: EngineNetwork, *, index: int = 10, mac: str = "") -> Attachment:
        assert network.subnet is not None
        address = ip_network(network.subnet)[index]
        return Attachment(network.name, uuid4().hex, "subnet", str(address), mac, address.version, False, network)

    async def reaches(self, uuid: str, state: str, timeout: float = 60.0) -> Observed:
        """Waits until the runtime says that the container is in ``state``."""
        last: list[Observed | None] = []

        async def there() -> bool:
            last[:] = [await self.runtime.inspect(uuid)]
            return last[0] is not None and last[0].state == state

        await eventually(cast("Callable[[], bool]", there), timeout, f"{uuid} is {state}")
        assert last[0] is not None
        return last[0]

    async def crash(self, uuid: str) -> None:
        """The container's process is killed behind the product's back."""
        raise NotImplementedError

    async def vanish(self, uuid: str) -> None:
        """The container is removed behind the product's back."""
        raise NotImplementedError

    async def close(self) -> None:
        await self.runtime.close()
        self.claim.close()


class DockerBench(Bench):
    """The real engine."""

    real = True

    def __init__(self, image: str, engine: Engine, **docker: Any) -> None:
        super().__init__(image)
        self.engine = engine
        self.conf = conf_with(api_url=engine.url, **docker)
        self.runtime: DockerRuntime = DockerRuntime(self.conf)

    def inspected(self, uuid: str) -> dict[str, Any]:
        found = self.engine.container(uuid)
        assert found is not None, f"the engine does not have {uuid}"
        return found

    async def crash(self, uuid: str) -> None:
        os.kill(self.inspected(uuid)["State"]["Pid"], signal.SIGKILL)

    async def vanish(self, uuid: str) -> None:
        self.engine.remove(f"zun-{uuid}")

    async def close(self) -> None:
        """Removes what the test made and proves that nothing of it is left."""
        try:
            await eventually(self._cleared, 60, f"nothing of {self.owner} and {self.prefix} is left")
        finally:
            await super().close()

    def _cleared(self) -> bool:
        deployment = self.owner.partition("/")[0]
        try:
            for row in self.engine.containers(deployment):
                self.engine.remove(row["Id"])
            for name in self.engine.networks({self.prefix}):
                self.engine.remove_network(name)
            self.engine.forget_images(self.domain)
            return not self.engine.containers(deployment) and not self.engine.networks({self.prefix})
        except httpx.HTTPStatusError:  # an end point that lingers, a container that just went
            return False


class SimulatedBench(Bench):
    """The engine in memory."""

    def __init__(self, image: str) -> None:
        super().__init__(image)
        self.runtime: SimulatedRuntime = SimulatedRuntime()
        self.runtime.add_image(image)

    async def crash(self, uuid: str) -> None:
        self.runtime.crash(uuid, 137)

    async def vanish(self, uuid: str) -> None:
        self.runtime.vanish(uuid)


async def seen(bench: Bench, uuid: str) -> Observed:
    """The container, which has to be there."""
    found = await bench.runtime.inspect(uuid)
    assert found is not None
    return found


async def state(bench: Bench, uuid: str) -> str:
    return (await seen(bench, uuid)).state
