"""The one place that chooses adapters from the configuration, and runs API and agent in one process or in two."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from zun.bus.base import Bus
from zun.bus.local import LocalBus
from zun.bus.sockets import SocketBus
from zun.conf import ConfigError, rabbit
from zun.control.base import Control
from zun.control.secrets import Cipher
from zun.domain.clock import Clock, SystemClock
from zun.identity.local import LocalIdentity
from zun.image.base import Images
from zun.image.registry import RegistryImages
from zun.network.base import Network
from zun.network.local import LocalNetwork
from zun.placement.base import Placement
from zun.placement.local import LocalPlacement
from zun.runtime.base import Runtime
from zun.runtime.docker import DockerRuntime
from zun.runtime.simulated import SimulatedRuntime
from zun.scheduler import filters
from zun.store import settings
from zun.store.database import Database
from zun.volume.base import Volumes
from zun.volume.local import LocalVolumes

if TYPE_CHECKING:
    from zun.api.call import Policy

LOG = logging.getLogger(__name__)

GRACE = 10
"""Seconds that requests at work are given to end when the process is told to stop."""


@dataclass(slots=True)
class Parts:
    """Everything chosen; shared by API and agent of one process."""

    conf: Any
    db: Database
    clock: Clock
    bus: Bus
    placement: Placement
    runtime: Runtime
    images: Mapping[str, Images]
    network: Network
    volumes: Mapping[str, Volumes]
    cipher: Cipher
    deployment_id: str

    def control(self) -> Control:
        """The API's side."""
        return Control(
            conf=self.conf,
            db=self.db,
            clock=self.clock,
            bus=self.bus,
            placement=self.placement,
            network=self.network,
            volumes=self.volumes,
            cipher=self.cipher,
            deployment_id=self.deployment_id,
        )


@contextlib.asynccontextmanager
async def build(conf: Any) -> AsyncIterator[Parts]:
    """Open what the configuration names; closed at the end of the block. Raises ConfigError."""
    clock = SystemClock()
    cipher = _cipher(conf)
    _check_filters(conf)
    db = Database.of(conf)
    runtime: Runtime = SimulatedRuntime() if conf.container_driver == "simulated" else DockerRuntime(conf)
    bus = _bus(conf)  # connects from here on
    try:
        await db.wait_until_up(conf.database.max_retries, conf.database.retry_interval)
        yield Parts(
            conf=conf,
            db=db,
            clock=clock,
            bus=bus,
            placement=LocalPlacement(db),
            runtime=runtime,
            images={"docker": RegistryImages(runtime, conf, clock)},
            network=LocalNetwork(db, runtime, conf, clock),
            volumes={"local": LocalVolumes(db, conf)},
            cipher=cipher,
            deployment_id=await _deployment_id(db),
        )
    finally:
        await bus.close()
        await runtime.close()
        await db.close()


async def _deployment_id(db: Database) -> str:
    try:
        return await settings.deployment_id(db)
    except sa.exc.ProgrammingError as error:  # a server says so of tables that do not exist
        raise ConfigError("the database has none of Zun's tables; run: zun-db-manage upgrade") from error


def _cipher(conf: Any) -> Cipher:
    try:
        return Cipher(conf.auth_encryption_key or "")
    except ValueError as error:
        raise ConfigError(f"[DEFAULT]/auth_encryption_key: {error}") from error


def _check_filters(conf: Any) -> None:
    """An unknown filter is refused at start, not at the first create."""
    try:
        filters.enabled(conf.scheduler.enabled_filters)
    except filters.UnknownFilter as error:
        raise ConfigError(str(error)) from error


def _bus(conf: Any) -> Bus:
    scheme, _, rest = conf.transport_url.partition("://")
    if scheme == "local":
        return LocalBus()
    if scheme == "unix" and rest.startswith("/"):
        return SocketBus(rest)
    if scheme in ("rabbit", "amqp", "amqps"):
        return _rabbit_bus(conf)
    raise ConfigError(
        f"[DEFAULT]/transport_url '{scheme}://…' is not known: use local:// (one process), unix:///folder"
        " (one machine) or rabbit://user:password@host:5672/ (RabbitMQ)"
    )


def _rabbit_bus(conf: Any) -> Bus:
    from zun.bus.rabbit_url import RabbitOptions, TransportUrlError

    try:
        from zun.bus.rabbitmq import RabbitBus
    except ImportError as error:
        raise ConfigError(
            "[DEFAULT]/transport_url names RabbitMQ, and the Python package aio-pika is not installed;"
            " install zun-ng[rabbitmq]"
        ) from error
    given = conf.oslo_messaging_rabbit
    options = RabbitOptions(
        exchange=conf.control_exchange,
        topic=conf.compute.topic,
        **{option.name: given[option.name] for option in rabbit.OPTIONS},
    )
    try:
        return RabbitBus(conf.transport_url, options)
    except TransportUrlError as error:
        raise ConfigError(f"[DEFAULT]/transport_url cannot be used: {error}") from error


async def run(conf: Any, *, api: bool, compute: bool, ready: Callable[[], None] | None = None) -> None:
    """Run API and/or agent until SIGTERM or SIGINT. Raises ConfigError, or OSError when the port is taken."""
    policy = _policy(conf) if api else None
    listening = _listen(conf) if api else None
    stop = asyncio.Event()
    async with build(conf) as parts:
        with _signals(stop), contextlib.ExitStack() as stack:
            if listening is not None:
                stack.enter_context(listening)
            await _serve(parts, listening, policy, compute=compute, ready=ready, stop=stop)


async def _serve(
    parts: Parts,
    listening: socket.socket | None,
    policy: Policy | None,
    *,
    compute: bool,
    ready: Callable[[], None] | None,
    stop: asyncio.Event,
) -> None:
    tasks: list[asyncio.Task[None]] = []
    agent_ready = asyncio.Event()
    if compute:
        tasks.append(asyncio.create_task(_agent(parts, agent_ready.set), name="agent"))
    if listening is not None and policy is not None:
        tasks.append(asyncio.create_task(_api(parts, listening, policy, stop), name="api"))
        tasks.append(asyncio.create_task(_reaper(parts, stop), name="reaper"))
    tasks.append(asyncio.create_task(_announce(agent_ready if compute else None, ready), name="announce"))
    waiter = asyncio.create_task(stop.wait(), name="stop")
    pending: set[asyncio.Task[Any]] = {waiter, *tasks}
    try:
        while not stop.is_set():
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if task is not waiter and task.exception() is not None:
                    raise task.exception() or AssertionError
    finally:
        stop.set()
        servers = [task for task in tasks if task.get_name() == "api"]
        if servers:
            await asyncio.wait(servers, timeout=GRACE + 1)
        for task in [*tasks, waiter]:
            task.cancel()
        await asyncio.gather(*tasks, waiter, return_exceptions=True)


async def _announce(agent_ready: asyncio.Event | None, ready: Callable[[], None] | None) -> None:
    if agent_ready is not None:
        await agent_ready.wait()
    if ready is not None:
        ready()


async def _agent(parts: Parts, ready: Callable[[], None]) -> None:
    from zun.compute import agent
    from zun.compute.node import Node

    node = Node(
        conf=parts.conf,
        db=parts.db,
        clock=parts.clock,
        bus=parts.bus,
        runtime=parts.runtime,
        images=parts.images,
        network=parts.network,
        volumes=parts.volumes,
        placement=parts.placement,
        cipher=parts.cipher,
        host=parts.conf.host,
        deployment_id=parts.deployment_id,
        instance=str(uuid.uuid4()),
    )
    await agent.run(node, ready)


async def _reaper(parts: Parts, stop: asyncio.Event) -> None:
    from zun.control import reaper

    await reaper.run(parts.control(), stop)


def _policy(conf: Any) -> Policy:
    from zun.api.policy import PolicyEnforcer, PolicyFileError

    try:
        return PolicyEnforcer(conf)
    except PolicyFileError as error:
        raise ConfigError(f"{error}.") from error


async def _api(parts: Parts, listening: socket.socket, policy: Policy, stop: asyncio.Event) -> None:
    import uvicorn

    from zun.api.app import create_app
    from zun.api.server import BoundedHttp

    class Server(uvicorn.Server):
        """Signals are ours."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    conf = parts.conf
    identity = LocalIdentity(parts.db, conf, parts.clock)
    application = create_app(parts.control(), identity, policy)
    tls = {"ssl_certfile": conf.api.ssl_cert_file, "ssl_keyfile": conf.api.ssl_key_file}
    server = Server(
        uvicorn.Config(
            application,
            loop="none",
            http=BoundedHttp,
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=GRACE,
            backlog=2048,
            **(tls if conf.api.enable_ssl_api else {}),
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listening]), name="uvicorn")
    try:
        await asyncio.wait({serving, asyncio.create_task(stop.wait())}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        server.should_exit = True
        await serving


def _listen(conf: Any) -> socket.socket:
    """Bind at once, so that a taken port is told before anything else is started."""
    family = socket.AF_INET6 if ":" in conf.api.host_ip else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((conf.api.host_ip, conf.api.port))
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening


@contextlib.contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
