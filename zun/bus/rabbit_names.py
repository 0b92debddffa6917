"""What our queues in RabbitMQ are called. The original's queues have other names, and other arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass

from zun.domain.errors import InvalidValue

_HOST = re.compile(r"[A-Za-z0-9._-]+")
_LONGEST = 255 - len("..cancels.") - 32  # bytes of an AMQP name, less what is put around topic and host


@dataclass(frozen=True, slots=True)
class HostNames:
    """Routing keys of one host; the doorbell's is the name of its queue as well."""

    doorbell: str
    calls: str
    cancels: str


def names_of(topic: str, host: str) -> HostNames:
    """Raises InvalidValue when the host cannot have a queue."""
    if not _HOST.fullmatch(host):
        raise InvalidValue(f"{host!r} cannot be the name of a host.")
    if len(topic) + len(host) > _LONGEST:
        raise InvalidValue(f"The host's name is longer than the {_LONGEST - len(topic)} characters a queue can have.")
    return HostNames(f"{topic}.{host}.doorbell", f"{topic}.{host}.calls", f"{topic}.{host}.cancels")
