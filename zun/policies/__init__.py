"""The policy rules: the original's names and defaults, so that operators keep their ``policy.yaml``."""

from __future__ import annotations

from zun.policies import (
    availability_zones,
    base,
    capsules,
    container_actions,
    containers,
    events,
    hosts,
    images,
    networks,
    quota_classes,
    quotas,
    registries,
    services,
)
from zun.policies.base import Rule

_MODULES = (
    availability_zones,
    capsules,
    container_actions,
    containers,
    events,
    hosts,
    images,
    networks,
    quota_classes,
    quotas,
    registries,
    services,
)


def list_rules() -> list[Rule]:
    """All rules with descriptions and operations."""
    return [*base.RULES, *(one for module in _MODULES for one in module.RULES)]
