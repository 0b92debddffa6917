"""503: something that the product needs does not answer; a retry can help."""

from __future__ import annotations

from zun.domain.errors.base import ZunError


class Unavailable(ZunError):
    """A service the product needs does not answer now."""

    status = 503
    retryable = True


class ServiceUnavailable(Unavailable):
    """Another OpenStack service did not answer, or answered with a fault of its own; ``service`` names it."""

    def __init__(self, service: str, detail: str) -> None:
        super().__init__(f"{service} is not available: {detail.rstrip('.')}.")
        self.service = service


class HostUnreachable(Unavailable):
    """The node did not answer a call in time."""


class BrokerUnreachable(HostUnreachable):
    """The node could not be asked: the message broker does not answer."""


class TooManyListeners(Unavailable):
    """As many streams are open as one process serves; another may have room, or this one later."""

    retryable = True


class PlacementUnavailable(Unavailable):
    """Placement did not answer; never reported as "not enough hosts"."""
