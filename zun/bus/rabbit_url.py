"""Where the message broker is: ``transport_url`` in the original's forms, and the options that go with it.

``rabbit://user:password@host1:5672,user:password@host2:5672/vhost?ssl=1&ssl_ca_file=/etc/ssl/rabbit.pem``
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

SCHEMES = ("rabbit", "amqp", "amqps")
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


class TransportUrlError(ValueError):
    """The URL, or an option beside it, cannot be used. The message never repeats the URL: it holds a password."""


@dataclass(frozen=True, slots=True)
class Broker:
    """One of the brokers that may be used."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class RabbitOptions:
    """``[oslo_messaging_rabbit]`` by its own names, ``control_exchange`` and ``[compute]/topic``."""

    exchange: str = "zun"
    topic: str = "zun-compute"
    ssl: bool = False
    ssl_ca_file: str = ""
    ssl_cert_file: str = ""
    ssl_key_file: str = ""
    heartbeat_timeout_threshold: int = 60
    """Seconds of silence after which a broker is given up; 0 = never."""
    rabbit_retry_interval: float = 1.0
    """Seconds before the first new attempt; doubled with each one."""
    rabbit_interval_max: float = 30.0


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed URL."""

    brokers: tuple[Broker, ...]
    vhost: str
    options: RabbitOptions
    tls: ssl.SSLContext | None = field(repr=False)
    ignored: tuple[str, ...] = ()
    """Names in the query that mean nothing here."""


def parse(url: str, options: RabbitOptions) -> Target:
    """Raises TransportUrlError with one sentence."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise TransportUrlError("it is not a URL") from error
    if parts.scheme not in SCHEMES:
        raise TransportUrlError(f"its scheme is none of {', '.join(SCHEMES)}")
    if "#" in url:
        raise TransportUrlError("a '#' in it has to be written as %23")
    if "/" in parts.path[1:] and parts.path != "//":
        raise TransportUrlError("a '/' in the user, the password or the virtual host has to be written as %2F")
    options, ignored = _overridden(options, parts.query)
    if parts.scheme == "amqps":
        options = replace(options, ssl=True)
    brokers = _brokers(parts.netloc, 5671 if parts.scheme == "amqps" else 5672)
    vhost = unquote(parts.path[1:]) or "/"
    return Target(brokers, vhost, options, _tls(options) if options.ssl else None, ignored)


def _brokers(netloc: str, default_port: int) -> tuple[Broker, ...]:
    """Hosts without a user of their own have the one before."""
    found: list[Broker] = []
    user, password = "guest", "guest"
    for item in netloc.split(","):
        login, at, address = item.rpartition("@")
        if at:
            user, colon, secret = login.partition(":")
            user, password = unquote(user), unquote(secret) if colon else ""
        try:
            parsed = urlsplit(f"//{address}")
            host, port = parsed.hostname or "localhost", parsed.port or default_port
        except ValueError as error:
            raise TransportUrlError(
                "host and port of a broker cannot be read; ':', '/', '?', '#', '@' and ',' in a password"
                " have to be percent-encoded"
            ) from error
        found.append(Broker(host, port, user, password))
    return tuple(found)


def _overridden(options: RabbitOptions, query: str) -> tuple[RabbitOptions, tuple[str, ...]]:
    """Options of the section may stand in the query, as the original allows."""
    kinds: Mapping[str, Callable[[str], Any]] = {"bool": _boolean, "int": int, "float": float, "str": str}
    known = {item.name: kinds[str(item.type)] for item in fields(options) if item.name not in ("exchange", "topic")}
    changes: dict[str, Any] = {}
    ignored: list[str] = []
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            ignored.append(name)
            continue
        try:
            changes[name] = known[name](value)
        except ValueError as error:
            raise TransportUrlError(f"{name}={value} in it is not a value for this option") from error
    changed = replace(options, **changes)
    intervals = (changed.heartbeat_timeout_threshold + 1, changed.rabbit_retry_interval, changed.rabbit_interval_max)
    if not all(0 < interval < math.inf for interval in intervals):
        raise TransportUrlError("an interval in it is not a positive number")
    return changed, tuple(ignored)


def _boolean(value: str) -> bool:
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise ValueError(value)


def _tls(options: RabbitOptions) -> ssl.SSLContext:
    """Broker and host name are always verified; without ``ssl_ca_file`` against the system's authorities."""
    try:
        context = ssl.create_default_context(cafile=options.ssl_ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise TransportUrlError(f"ssl_ca_file {options.ssl_ca_file} cannot be used: {_why(error)}") from error
    if options.ssl_cert_file:
        try:
            context.load_cert_chain(options.ssl_cert_file, options.ssl_key_file or None)
        except (OSError, ssl.SSLError) as error:
            names = f"ssl_cert_file {options.ssl_cert_file} with ssl_key_file {options.ssl_key_file or '(none)'}"
            raise TransportUrlError(f"{names} cannot be used: {_why(error)}") from error
    return context


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
