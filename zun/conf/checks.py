"""What single options cannot say of themselves: values that contradict each other, or that nothing could use."""

from __future__ import annotations

import ipaddress
import math
from pathlib import Path
from typing import Any

_LIMITS = (
    # least, most, what is taken when the request names none (0 = no limit)
    ("minimum_cpus", "maximum_cpus", "default_cpu"),
    ("minimum_memory", "maximum_memory", "default_memory"),
    ("minimum_disk", "maximum_disk", "default_disk"),
)
_HOST_LENGTH = 255


def problem(conf: Any) -> str | None:
    """One sentence for the first contradiction; None when all is well."""
    for check in (_numbers, _limits, _images, _host, _addresses, _tls, _database):
        found = check(conf)
        if found:
            return found
    return None


def _numbers(conf: Any) -> str | None:
    """oslo.config takes nan and inf for numbers."""
    named = [("DEFAULT", conf, ("minimum_cpus", "maximum_cpus", "default_cpu")), ("api", conf.api, ("body_timeout",))]
    ratios = [f"{prefix}{kind}_allocation_ratio" for prefix in ("", "initial_") for kind in ("cpu", "ram", "disk")]
    named.append(("compute", conf.compute, ("reserve_disk_for_image", *ratios)))
    for group, section, names in named:
        for name in names:
            if section[name] is not None and not math.isfinite(section[name]):
                return f"[{group}]/{name} has to be a finite number, not {section[name]}"
    return None


def _limits(conf: Any) -> str | None:
    for least, most, default in _LIMITS:
        if conf[least] > conf[most]:
            return f"[DEFAULT]/{least} ({conf[least]:g}) is greater than {most} ({conf[most]:g})"
        if conf[default] and not conf[least] <= conf[default] <= conf[most]:
            return f"[DEFAULT]/{default} ({conf[default]:g}) is not between {least} and {most}"
    return None


def _images(conf: Any) -> str | None:
    drivers, known = conf.image_driver_list, ("docker", "glance")
    unknown = [name for name in drivers if name not in known]
    if unknown or not drivers:
        return f"[DEFAULT]/image_driver_list may name {' and '.join(known)}, not '{','.join(drivers)}'"
    if conf.default_image_driver not in drivers:
        return f"[DEFAULT]/default_image_driver '{conf.default_image_driver}' is not in image_driver_list"
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
