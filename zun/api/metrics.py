"""Counters and times of requests; /metrics is for this machine only."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from prometheus_client import Counter, Gauge, Histogram, generate_latest

_REQUESTS = Counter("zun_api_requests", "API requests by operation and status.", ["operation", "status"])
_SECONDS = Histogram(
    "zun_api_request_seconds",
    "Time from the request's head to its answer.",
    ["operation"],
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)

WAITING = Gauge("zun_api_waiting_requests", "API requests that wait for a status.")


@lru_cache(maxsize=2048)
def _requests(operation: str, status: int) -> Counter:
    return _REQUESTS.labels(operation, str(status))


@lru_cache(maxsize=512)
def _seconds(operation: str) -> Histogram:
    return _SECONDS.labels(operation)


def count(operation: str, status: int, seconds: float) -> None:
    """Record one answered request."""
    _requests(operation, status).inc()
    _seconds(operation).observe(seconds)


def text() -> bytes:
    """All metrics of this process in Prometheus' text format."""
    return generate_latest()


def is_local(client: tuple[str, int] | None, *, forwarded: bool) -> bool:
    """Did the request come from this machine itself (not through a proxy on it)?"""
    if client is None or forwarded:
        return False
    try:
        return ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False
