"""The route table: every operation of the API, concatenated from the resources."""

from __future__ import annotations

from zun.api.table import Route
from zun.api.v1 import (
    availability_zones,
    capsules,
    container_actions,
    container_log_stream,
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

ROUTES: list[Route] = [
    *containers.ROUTES,
    *container_actions.ROUTES,
    *container_log_stream.ROUTES,
    *hosts.ROUTES,
    *services.ROUTES,
    *availability_zones.ROUTES,
    *quotas.ROUTES,
    *quota_classes.ROUTES,
    *registries.ROUTES,
    *images.ROUTES,
    *networks.ROUTES,
    *capsules.ROUTES,
    *events.ROUTES,
]

COLLECTIONS = (
    "services",
    "containers",
    "images",
    "networks",
    "hosts",
    "capsules",
    "availability_zones",
    "quotas",
    "quota_classes",
    "registries",
)
"""Named by the discovery document whether or not this build serves them."""
