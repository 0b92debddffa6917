"""Runs API, agent and proxy, in one process or in several, on the parts the configuration chooses (``parts.py``)."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import socket
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from zun import metrics, stopping
from zun.conf import ConfigError
from zun.domain.vitals import Vitals
from zun.parts import Parts, build

if TYPE_CHECKING:
    from zun.api.call import Policy
    from zun.compute.node import Node

LOG = logging.getLogger(__name__)

GRACE = 10
"""Seconds that requests at work are given to end when the process is told to stop."""


async def run(
    conf: Any,
    *,
    api: bool,
    compute: bool,
    proxy: bool = False,
    ready: Callable[[], None] | None = None,
    vitals: Vitals | None = None,
) -> None:
    """Run API, agent and the proxy of sessions, as asked, until SIGTERM or SIGINT; the agent's loops tell ``vitals``
    how they are. Raises ConfigError, or OSError when a port is taken."""
    policy, vitals = _policy(conf) if api else None, vitals or Vitals()
    stop = asyncio.Event()
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(_listen(conf)) if api else None
        sessions = stack.enter_context(_listen_for_sessions(conf)) if proxy else None
        stack.enter_context(metrics.serving(conf, "api" if api else "compute", vitals))
        async with build(conf) as parts:
            with stopping.on_signals(stop):
                await _serve(parts, listening, sessions, policy, vitals, compute=compute, ready=ready, stop=stop)


async def _serve(
    parts: Parts,
    listening: socket.socket | None,
    sessions: socket.socket | None,
    policy: Policy | None,
    vitals: Vitals,
    *,
    compute: bool,
    ready: Callable[[], None] | None,
    stop: asyncio.Event,
) -> None:
    tasks: list[asyncio.Task[None]] = []
    agent_ready = asyncio.Event()
    if compute:
        tasks.append(asyncio.create_task(run_agent(parts, vitals, agent_ready.set), name="agent"))
    if listening is not None and policy is not None:
        tasks.append(asyncio.create_task(_api(parts, listening, policy, stop), name="api"))
        tasks.append(asyncio.create_task(_reaper(parts, stop), name="reaper"))
        tasks.append(asyncio.create_task(_evacuation(parts, stop), name="evacuation"))
        if compute:
            tasks.append(asyncio.create_task(_cni_daemon(parts.conf), name="cni-daemon"))
    if sessions is not None:
        tasks.append(asyncio.create_task(_wsproxy(parts, sessions, stop), name="wsproxy"))
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
        servers = [task for task in tasks if task.get_name() in ("api", "wsproxy")]
        if servers:
            await asyncio.wait(servers, timeout=GRACE + 1)
        for task in [*tasks, waiter]:
            task.cancel()
        await asyncio.gather(*tasks, waiter, return_exceptions=True)


async def _cni_daemon(conf: Any) -> None:
    """A product of one process is its own CNI daemon, where it may plug and its configuration names a socket."""
    wanted = conf.capsule_driver == "cri" and conf.container_driver != "simulated" and conf.cni_daemon.socket
    if not wanted or os.geteuid():
        return
    daemon = await asyncio.to_thread(importlib.import_module, "zun.cni.daemon")
    try:
        async with daemon.serving(conf):
            await asyncio.Event().wait()
    except ConfigError as error:  # one of its own serves this node
        LOG.warning("action=cni-daemon result=not started reason=%s", error)


async def _wsproxy(parts: Parts, listening: socket.socket, stop: asyncio.Event) -> None:
    from zun.wsproxy import service

    try:
        async with contextlib.AsyncExitStack() as stack:
            docker = None
            if parts.conf.websocket_proxy.docker_tcp:
                from zun import docker_door

                docker = (await stack.enter_async_context(docker_door.opened(parts.conf))).connect
            await stack.enter_async_context(service.serving(parts.conf, parts.db, parts.clock, listening, docker))
            await stop.wait()
    except ConfigError as error:  # containers are of use without sessions
        LOG.warning("action=wsproxy result=not started reason=%s", error)
        listening.close()
        await stop.wait()


async def _announce(agent_ready: asyncio.Event | None, ready: Callable[[], None] | None) -> None:
    if agent_ready is not None:
        await agent_ready.wait()
    if ready is not None:
        ready()


async def run_agent(parts: Parts, vitals: Vitals, ready: Callable[[], None]) -> None:
    """The agent of ``[DEFAULT]/host`` on these parts, until cancelled; ``ready`` as in ``zun.compute.agent.run``."""
    from zun.compute import agent

    await agent.run(node_of(parts, vitals), ready)


def node_of(parts: Parts, vitals: Vitals) -> Node:
    """This machine as a node."""
    from zun.compute.node import Node

    return Node(
        conf=parts.conf,
        db=parts.db,
        clock=parts.clock,
        bus=parts.bus,
        runtime=parts.runtime,
        pods=parts.pods,
        pod_images=parts.pod_images,
        pod_network=parts.pod_network,
        images=parts.images,
        image_store=parts.image_store,
        network=parts.network,
        volumes=parts.volumes,
        placement=parts.placement,
        cipher=parts.cipher,
        notifier=parts.notifier,
        host=parts.conf.host,
        deployment_id=parts.deployment_id,
        instance=str(uuid.uuid4()),
        vitals=vitals,
    )


async def _reaper(parts: Parts, stop: asyncio.Event) -> None:
    from zun.control import reaper

    await reaper.run(parts.control(), stop)


async def _evacuation(parts: Parts, stop: asyncio.Event) -> None:
    from zun.control import evacuation

    await evacuation.run(parts.control(), stop)


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
    application = create_app(parts.control(), parts.identity, policy, stopping=stop)
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
            forwarded_allow_ips=list(conf.api.trusted_proxies),
            timeout_graceful_shutdown=GRACE,
            backlog=2048,
            **(tls if conf.api.enable_ssl_api else {}),
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listening]), name="uvicorn")
    try:
        await asyncio.wait({serving, asyncio.create_task(stop.wait())}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await parts.events.close()  # streams end by themselves, the server waits for them
        server.should_exit = True
        await serving


def _listen_for_sessions(conf: Any) -> socket.socket:
    from zun.wsproxy import service

    return service.listen(conf)


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
