"""What single options cannot say of themselves: values that contradict each other, or that nothing could use."""

from __future__ import annotations

import ipaddress
import math
from pathlib import Path
from typing import Any

from zun.conf import cloud
from zun.domain import pci
from zun.domain.numa import parse_cpu_list

_LIMITS = (
    # least, most, what is taken when the request names none (0 = no limit)
    ("minimum_cpus", "maximum_cpus", "default_cpu"),
    ("minimum_memory", "maximum_memory", "default_memory"),
    ("minimum_disk", "maximum_disk", "default_disk"),
)
_SECONDS = ("body_timeout", "event_poll_interval", "stream_keepalive", "stream_seconds")
_HOST_LENGTH = 255
_SOCKET_LENGTH = 107


def problem(conf: Any) -> str | None:
    """One sentence for the first contradiction; None when all is well."""
    for check in (
        _numbers,
        _limits,
        _disk_marks,
        _evacuation,
        _images,
        _volumes,
        _host,
        _addresses,
        _cni_daemon,
        _tls,
        _proxy,
        _database,
        _shared_host,
        _floating,
        _pci,
    ):
        found = check(conf)
        if found:
            return found
    return None


def _numbers(conf: Any) -> str | None:
    """oslo.config takes nan and inf for numbers."""
    named = [("DEFAULT", conf, ("minimum_cpus", "maximum_cpus", "default_cpu")), ("api", conf.api, _SECONDS)]
    ratios = [f"{prefix}{kind}_allocation_ratio" for prefix in ("", "initial_") for kind in ("cpu", "ram", "disk")]
    named.append(("compute", conf.compute, ("reserve_disk_for_image", *ratios)))
    for group, section, names in named:
        for name in names:
            if section[name] is not None and not math.isfinite(section[name]):
                return f"[{group}]/{name} has to be a finite number, not {section[name]}"
    return None


def _floating(conf: Any) -> str | None:
    try:
        parse_cpu_list(conf.floating_cpu_set)
    except ValueError as error:
        return f"[DEFAULT]/floating_cpu_set: {error}"
    return None


def _pci(conf: Any) -> str | None:
    try:
        pci.parse_aliases(conf.pci.alias)
        pci.parse_whitelist(conf.pci.passthrough_whitelist)
    except ValueError as error:
        return f"[pci]: {error}"
    return None


def _proxy(conf: Any) -> str | None:
    section = conf.websocket_proxy
    if section.ssl_only and not section.cert:
        return "[websocket_proxy]/ssl_only needs a certificate: set cert and key"
    if section.key and not section.cert:
        return "[websocket_proxy]/key needs a certificate: set cert"
    for entry in section.trusted_proxies:
        try:
            ipaddress.ip_network(entry.strip(), strict=False)
        except ValueError as error:
            return f"[websocket_proxy]/trusted_proxies: {error}"
    return None


def _shared_host(conf: Any) -> str | None:
    """Nova rewrites the inventories of its provider: what we would add there is gone with its next report."""
    if not conf.compute.host_shared_with_nova:
        return None
    if cloud.placement_driver(conf) != "openstack":
        return "[compute]/host_shared_with_nova needs the Placement service ([placement]/driver = openstack)"
    if conf.compute.fractional_cpu:
        return "[compute]/fractional_cpu cannot be used with host_shared_with_nova: Nova counts whole VCPU"
    return None


def _limits(conf: Any) -> str | None:
    for least, most, default in _LIMITS:
        if conf[least] > conf[most]:
            return f"[DEFAULT]/{least} ({conf[least]:g}) is greater than {most} ({conf[most]:g})"
        if conf[default] and not conf[least] <= conf[default] <= conf[most]:
            return f"[DEFAULT]/{default} ({conf[default]:g}) is not between {least} and {most}"
    return None


def _disk_marks(conf: Any) -> str | None:
    low, high = conf.compute.image_low_percent, conf.compute.image_high_percent
    if low >= high:
        return f"[compute]/image_low_percent ({low}) has to be below image_high_percent ({high})"
    return None


def _evacuation(conf: Any) -> str | None:
    """Nobody starts a container that may still run where it was."""
    after, lease, fence = conf.compute.evacuate_after, conf.service_down_time, conf.compute.fence_seconds
    if after and after <= lease + fence:
        return (
            f"[compute]/evacuate_after ({after}) has to be more than [DEFAULT]/service_down_time ({lease}) and"
            f" [compute]/fence_seconds ({fence}) together, or 0"
        )
    return None


def _images(conf: Any) -> str | None:
    drivers, known = cloud.image_drivers(conf), ("docker", "glance")
    unknown = [name for name in drivers if name not in known]
    if unknown or not drivers:
        return f"[DEFAULT]/image_driver_list may name {' and '.join(known)}, not '{','.join(drivers)}'"
    if conf.default_image_driver not in drivers:
        return f"[DEFAULT]/default_image_driver '{conf.default_image_driver}' is not in image_driver_list"
    return None


def _volumes(conf: Any) -> str | None:
    drivers, known = cloud.volume_drivers(conf), ("cinder", "local")
    unknown = [name for name in drivers if name not in known]
    if unknown or not drivers:
        return f"[volume]/driver_list may name {' and '.join(known)}, not '{','.join(drivers)}'"
    if not conf.volume.fstype.isalnum() or not conf.volume.fstype.isascii():
        return f"[volume]/fstype '{conf.volume.fstype}' is no name of a file system"
    return None


def _host(conf: Any) -> str | None:
    name = conf.host
    if not name or len(name) > _HOST_LENGTH or not all(c.isascii() and (c.isalnum() or c in "-._") for c in name):
        return (
            f"[DEFAULT]/host '{name[:_HOST_LENGTH]}' has to be letters, digits, '-', '.' and '_', at most 255 of them"
        )
    return None


def _addresses(conf: Any) -> str | None:
    if not conf.api.host_ip:
        return "[api]/host_ip is empty; 0.0.0.0 listens on every address"
    try:
        pool = ipaddress.ip_network(conf.local.subnet_pool)
    except ValueError as error:
        return f"[local]/subnet_pool is no network: {error}"
    if pool.version != 4 or conf.local.subnet_prefix < pool.prefixlen:
        return f"[local]/subnet_prefix {conf.local.subnet_prefix} does not fit into subnet_pool {pool}"
    return None


def _cni_daemon(conf: Any) -> str | None:
    """Whoever reaches it can plug: nobody does from outside."""
    options = conf.cni_daemon
    if options.socket and not (options.socket.startswith("/") and len(options.socket.encode()) <= _SOCKET_LENGTH):
        return f"[cni_daemon]/socket has to be an absolute path of at most {_SOCKET_LENGTH} bytes"
    try:
        local = ipaddress.ip_address(options.cni_daemon_host).is_loopback
    except ValueError:
        local = False
    return None if local else f"[cni_daemon]/cni_daemon_host {options.cni_daemon_host} is no loopback address"


def _tls(conf: Any) -> str | None:
    if not conf.api.enable_ssl_api:
        return None
    for name in ("ssl_cert_file", "ssl_key_file"):
        if not conf.api[name]:
            return f"[api]/enable_ssl_api is on and {name} is not given"
        if not Path(conf.api[name]).is_file():
            return f"[api]/{name} {conf.api[name]} is not a file"
    return None


def _database(conf: Any) -> str | None:
    """The URL itself is not repeated: it may hold a password."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(conf.database.connection)
    except ArgumentError:
        return "[database]/connection is not a database URL such as sqlite:////var/lib/zun/zun.sqlite"
    known = ("sqlite", "mysql", "mariadb", "postgresql")
    if url.get_backend_name() not in known:
        return f"[database]/connection names the database '{url.get_backend_name()}'; known are {', '.join(known)}"
    if url.get_backend_name() == "sqlite" and not url.database:
        return "[database]/connection names no file; a database in memory cannot be shared"
    return None
