"""The one place that chooses adapters from the configuration, and opens and closes them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from zun.bus.base import Bus
from zun.bus.local import LocalBus
from zun.bus.notifier import Logged, Notifier, Several, Silent
from zun.bus.rabbit_url import RabbitOptions
from zun.bus.sockets import SocketBus
from zun.conf import ConfigError, cloud, rabbit
from zun.control.base import Control
from zun.control.event_feed import EventFeed
from zun.control.log_places import LogPlaces
from zun.control.secrets import Cipher
from zun.domain.clock import Clock, SystemClock
from zun.identity.base import Identity
from zun.identity.keystone import KeystoneIdentity
from zun.identity.local import LocalIdentity
from zun.image.base import Images, ImageStore
from zun.image.registry import RegistryImages
from zun.network.base import Network, PodNetwork
from zun.network.cni import CniNetwork, PortSource
from zun.network.cni_local import LocalSource
from zun.network.cni_neutron import NeutronSource
from zun.network.direct import DirectNetwork
from zun.network.kuryr import KuryrNetwork
from zun.network.local import LocalNetwork
from zun.placement.base import Placement
from zun.placement.local import LocalPlacement
from zun.placement.openstack import OpenStackPlacement
from zun.plumbing.handover import Handovers
from zun.plumbing.plumber import Plumber
from zun.runtime.base import Runtime
from zun.runtime.docker import DockerRuntime
from zun.runtime.docker_pods import DockerPods
from zun.runtime.pods import Pods
from zun.runtime.simulated import SimulatedRuntime
from zun.runtime.simulated_pods import SimulatedPods
from zun.scheduler import filters
from zun.scheduler.choices import Choices
from zun.store import settings
from zun.store.clock import DatabaseClock
from zun.store.database import Database
from zun.volume.base import Volumes
from zun.volume.cinder import CinderVolumes
from zun.volume.local import LocalVolumes

if TYPE_CHECKING:
    from zun.openstack.cloud import OpenStack

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Parts:
    """Everything chosen; shared by API and agent of one process."""

    conf: Any
    db: Database
    clock: Clock
    bus: Bus
    placement: Placement
    runtime: Runtime
    pods: Pods | None
    """The engine for capsules; None where the node has none."""
    pod_images: Images | None
    """Images of registries, pulled by that engine."""
    images: Mapping[str, Images]
    image_store: ImageStore | None
    network: Network
    pod_network: PodNetwork
    """The network of capsules: ``network`` itself where their engine plugs as that of containers does."""
    volumes: Mapping[str, Volumes]
    cipher: Cipher
    identity: Identity
    deployment_id: str
    events: EventFeed
    log_places: LogPlaces
    notifier: Notifier
    choices: Choices = field(default_factory=Choices)

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
            events=self.events,
            log_places=self.log_places,
            notifier=self.notifier,
            images=self.images,
            image_store=self.image_store,
            choices=self.choices,
        )


@dataclass(frozen=True, slots=True)
class Counting:
    """What a tool needs that looks after Placement only."""

    conf: Any
    db: Database
    clock: Clock
    placement: Placement
    choices: Choices = field(default_factory=Choices)


@contextlib.asynccontextmanager
async def counting(conf: Any) -> AsyncIterator[Counting]:
    """Database and Placement, nothing else. Raises ConfigError, Unavailable."""
    async with contextlib.AsyncExitStack() as stack:
        openstack = _openstack(conf)
        if openstack is not None:
            stack.push_async_callback(openstack.close)
        db = Database.of(conf)
        stack.push_async_callback(db.close)
        placement = _placement(conf, db, openstack, await _deployment_id(db))
        yield Counting(conf, db, SystemClock(), placement)


@contextlib.asynccontextmanager
async def build(conf: Any, *, alone: bool = False) -> AsyncIterator[Parts]:
    """Open what the configuration names; closed at the end of the block. ``alone``: for a tool, which rings nobody and
    tells nobody. Raises ConfigError."""
    cipher = _cipher(conf)
    _check_filters(conf)
    async with contextlib.AsyncExitStack() as stack:
        openstack = _openstack(conf)
        if openstack is not None:
            stack.push_async_callback(openstack.close)
        db = Database.of(conf)
        stack.push_async_callback(db.close)
        clock = DatabaseClock(db)
        runtime = _runtime(conf)
        stack.push_async_callback(runtime.close)
        bus = LocalBus() if alone else _bus(conf, clock)  # connects from here on
        stack.push_async_callback(bus.close)
        notifier = Silent() if alone else _notifier(conf)
        stack.push_async_callback(notifier.close)
        await db.wait_until_up(conf.database.max_retries, conf.database.retry_interval)
        await stack.enter_async_context(clock.followed())
        deployment_id = await _deployment_id(db)
        volumes = {name: _volumes(name, conf, db, clock, openstack) for name in cloud.volume_drivers(conf)}
        for driver in volumes.values():
            stack.push_async_callback(driver.close)
        network = _network(conf, db, clock, runtime, openstack, deployment_id)
        stack.push_async_callback(network.close)
        pod_network = _pod_network(conf, db, clock, runtime, openstack, network)
        stack.push_async_callback(pod_network.close)
        pods = _pods(conf, clock)
        if pods is not None:
            stack.push_async_callback(pods.close)
        events = EventFeed(db, conf)
        stack.push_async_callback(events.close)
        yield Parts(
            conf=conf,
            db=db,
            clock=clock,
            bus=bus,
            placement=_placement(conf, db, openstack, deployment_id),
            runtime=runtime,
            pods=pods,
            pod_images=RegistryImages(pods, conf, clock) if pods is not None else None,
            images={name: _images(name, conf, clock, runtime, openstack) for name in cloud.image_drivers(conf)},
            image_store=_image_store(conf, clock, openstack),
            network=network,
            pod_network=pod_network,
            volumes=volumes,
            cipher=cipher,
            identity=_identity(conf, db, openstack),
            deployment_id=deployment_id,
            events=events,
            log_places=LogPlaces(conf.api.log_streams),
            notifier=notifier,
        )


def _openstack(conf: Any) -> OpenStack | None:
    """The cloud's services, if anything chosen is one of them."""
    chosen = {cloud.placement_driver(conf), cloud.network_driver(conf)}
    chosen |= {*cloud.volume_drivers(conf), *cloud.image_drivers(conf)}
    if not cloud.in_cloud(conf) and not chosen & {"openstack", "kuryr", "direct", "cinder", "glance"}:
        return None
    from zun.openstack.cloud import OpenStack  # loads keystoneauth

    return OpenStack(conf)


_PLUGGING = 120.0
"""Seconds. Kuryr takes 3 to 4 a container, one at a time: that is some 30 at once."""


def _runtime(conf: Any) -> Runtime:
    if conf.container_driver == "simulated":
        return SimulatedRuntime()
    return DockerRuntime(conf, plugging=_PLUGGING if cloud.network_driver(conf) == "kuryr" else 0.0)


def _pods(conf: Any, clock: Clock) -> Pods | None:
    if conf.container_driver == "simulated":
        return SimulatedPods(clock=clock)
    if conf.capsule_driver == "docker":
        return DockerPods(conf, plugging=_PLUGGING if cloud.network_driver(conf) == "kuryr" else 0.0)
    try:
        from zun.runtime.cri.adapter import CriPods
    except ImportError:
        LOG.warning("action=capsules result=off reason=grpcio is not installed; install zun-ng[cri]")
        return None
    return CriPods(conf)


def _identity(conf: Any, db: Database, openstack: OpenStack | None) -> Identity:
    """Tokens end by the date, as people and Keystone have it."""
    clock = SystemClock()
    if cloud.in_cloud(conf) and openstack is not None:
        return KeystoneIdentity(openstack.keystone, conf, clock)
    return LocalIdentity(db, conf, clock)


def _placement(conf: Any, db: Database, openstack: OpenStack | None, deployment_id: str) -> Placement:
    if cloud.placement_driver(conf) != "openstack" or openstack is None:
        return LocalPlacement(db)
    return OpenStackPlacement(
        openstack.placement,
        deployment_id=deployment_id,
        refresh=conf.compute.resource_provider_association_refresh,
    )


def _network(
    conf: Any, db: Database, clock: Clock, runtime: Runtime, openstack: OpenStack | None, deployment_id: str
) -> Network:
    if openstack is not None and cloud.network_driver(conf) == "direct":
        return DirectNetwork(openstack.neutron, db, conf, clock, deployment_id)
    if openstack is not None and cloud.network_driver(conf) == "kuryr":
        return KuryrNetwork(openstack.neutron, db, conf, runtime, clock)
    return LocalNetwork(db, runtime, conf, clock)


def _pod_network(
    conf: Any, db: Database, clock: Clock, runtime: Runtime, openstack: OpenStack | None, network: Network
) -> PodNetwork:
    """Capsules of containerd are on the same networks as containers, and plugged by way of our CNI pair."""
    if conf.capsule_driver != "cri" or conf.container_driver == "simulated":
        return network
    handovers = Handovers(conf.state_path)
    plumber = Plumber(handovers.owner, ovs_database=conf.network.ovsdb_connection)
    source: PortSource
    if isinstance(network, LocalNetwork):
        source = LocalSource(network, runtime, handovers.owner, conf)
    elif openstack is not None:
        source = NeutronSource(openstack.neutron, plumber, db, conf)
    else:
        raise ConfigError("[network]/driver needs [keystone_authtoken]")
    return CniNetwork(source, plumber, handovers, db, conf, clock)


def _volumes(name: str, conf: Any, db: Database, clock: Clock, openstack: OpenStack | None) -> Volumes:
    if name == "cinder" and openstack is not None:
        return CinderVolumes(db, conf, openstack.cinder, clock)
    return LocalVolumes(db, conf, clock)


def _images(name: str, conf: Any, clock: Clock, runtime: Runtime, openstack: OpenStack | None) -> Images:
    if name == "glance":
        from zun.image.glance import GlanceImages

        if openstack is None:
            raise ConfigError("[DEFAULT]/image_driver_list names glance, which needs [keystone_authtoken]")
        return GlanceImages(openstack.glance, runtime, conf, clock)
    return RegistryImages(runtime, conf, clock)


def _image_store(conf: Any, clock: Clock, openstack: OpenStack | None) -> ImageStore | None:
    if openstack is None or "glance" not in cloud.image_drivers(conf):
        return None
    from zun.image.glance_store import GlanceStore

    return GlanceStore(openstack.glance, conf, clock)


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


def _bus(conf: Any, clock: DatabaseClock) -> Bus:
    scheme, _, rest = conf.transport_url.partition("://")
    if scheme == "local":
        return LocalBus()
    if scheme == "unix" and rest.startswith("/"):
        return SocketBus(rest)
    if scheme in ("rabbit", "amqp", "amqps"):
        return _rabbit_bus(conf, clock)
    raise ConfigError(
        f"[DEFAULT]/transport_url '{scheme}://…' is not known: use local:// (one process), unix:///folder"
        " (one machine) or rabbit://user:password@host:5672/ (RabbitMQ)"
    )


def _notifier(conf: Any) -> Notifier:
    group = conf.oslo_messaging_notifications
    drivers: list[Notifier] = []
    if "log" in group.driver:
        drivers.append(Logged())
    for name in ("messaging", "messagingv2"):
        if name in group.driver:
            drivers.append(_rabbit_notifier(conf, enveloped=name == "messagingv2"))
    return Several(drivers) if drivers else Silent()


def _rabbit_notifier(conf: Any, *, enveloped: bool) -> Notifier:
    from zun.bus.rabbit_url import SCHEMES, TransportUrlError

    group = conf.oslo_messaging_notifications
    url = group.transport_url or conf.transport_url
    if url.partition("://")[0] not in SCHEMES:
        raise ConfigError("[oslo_messaging_notifications]/driver needs RabbitMQ: a transport_url with rabbit://")
    try:
        from zun.bus.rabbit_notifier import RabbitNotifier
    except ImportError as error:
        raise ConfigError(_NO_RABBIT) from error
    try:
        return RabbitNotifier(
            url,
            _rabbit_options(conf),
            publisher=f"container.{conf.host}",
            topics=group.topics,
            enveloped=enveloped,
            durable=group.amqp_durable_queues,
            retries=group.retry,
        )
    except TransportUrlError as error:
        raise ConfigError(f"[oslo_messaging_notifications]/transport_url cannot be used: {error}") from error


_NO_RABBIT = "RabbitMQ is named, and the Python package aio-pika is not installed; install zun-ng[rabbitmq]"


def _rabbit_options(conf: Any) -> RabbitOptions:
    given = conf.oslo_messaging_rabbit
    return RabbitOptions(
        exchange=conf.control_exchange,
        topic=conf.compute.topic,
        **{option.name: given[option.name] for option in rabbit.OPTIONS},
    )


def _rabbit_bus(conf: Any, clock: DatabaseClock) -> Bus:
    from zun.bus.rabbit_url import TransportUrlError

    try:
        from zun.bus.rabbitmq import RabbitBus
    except ImportError as error:
        raise ConfigError(
            "[DEFAULT]/transport_url names RabbitMQ, and the Python package aio-pika is not installed;"
            " install zun-ng[rabbitmq]"
        ) from error
    try:
        return RabbitBus(conf.transport_url, _rabbit_options(conf), clock.timestamp)
    except TransportUrlError as error:
        raise ConfigError(f"[DEFAULT]/transport_url cannot be used: {error}") from error
