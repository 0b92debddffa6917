"""``GET /`` and ``GET /v1``: what this service is, without a token."""

from __future__ import annotations

from typing import Any

from zun.api.call import MAX_VERSION, MIN_VERSION
from zun.api.routes import COLLECTIONS

DESCRIPTION = "Zun is an OpenStack project which aims to provide containers service."
DOCUMENTATION = "https://docs.openstack.org/developer/zun/dev/api-spec-v1.html"


def root(base_url: str) -> dict[str, Any]:
    """The versions document."""
    version = {
        "id": "v1",
        "links": [{"href": f"{base_url}/v1/", "rel": "self"}],
        "status": "CURRENT",
        "max_version": str(MAX_VERSION),
        "min_version": str(MIN_VERSION),
    }
    return {
        "name": "OpenStack Zun API",
        "description": DESCRIPTION,
        "versions": [version],
        "default_version": version,
    }


def v1(base_url: str) -> dict[str, Any]:
    """The document of version 1."""
    found: dict[str, Any] = {
        "id": "v1",
        "media_types": [{"base": "application/json", "type": "application/vnd.openstack.zun.v1+json"}],
        "links": [
            {"href": f"{base_url}/v1/", "rel": "self"},
            {"href": DOCUMENTATION, "rel": "describedby", "type": "text/html"},
        ],
    }
    for name in COLLECTIONS:
        found[name] = [
            {"href": f"{base_url}/v1/{name}/", "rel": "self"},
            {"href": f"{base_url}/{name}/", "rel": "bookmark"},
        ]
    return found
