"""Weights: which of the fitting hosts is best. Spread: most free by fraction, once the container is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zun.scheduler.filters import Host


def free_fraction(host: Host, resources: Mapping[str, int]) -> float:
    """Mean share of the asked classes that stays free after placing, 1.0 = empty; classes without capacity count 0."""
    shares = []
    for name, amount in resources.items():
        capacity = host.capacity.get(name, 0)
        left = capacity - host.used.get(name, 0) - amount
        shares.append(left / capacity if capacity > 0 else 0.0)
    return sum(shares) / len(shares) if shares else 0.0


def with_unseen(host: Host, unseen: Mapping[str, Mapping[str, int]]) -> Host:
    """The host with what others have chosen of its provider, and its record may not show."""
    taken = unseen.get(host.provider_uuid)
    if taken is None:
        return host
    names = {*host.used, *taken}
    return replace(host, used={name: host.used.get(name, 0) + taken.get(name, 0) for name in names})


def best_first(hosts: Sequence[Host], resources: Mapping[str, int]) -> Sequence[Host]:
    """Hosts by free fraction, equal ones by name: the same facts always give the same order."""
    return sorted(hosts, key=lambda host: (-free_fraction(host, resources), host.hostname))
