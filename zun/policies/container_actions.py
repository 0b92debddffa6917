"""Rules of the actions of containers."""

from __future__ import annotations

from zun.policies.base import ADMIN, ADMIN_OR_OWNER, rule

RULES = [
    rule(
        "container:actions",
        ADMIN_OR_OWNER,
        "Read the actions of a container.",
        "GET /v1/containers/{container_ident}/container_actions",
        "GET /v1/containers/{container_ident}/container_actions/{request_id}",
    ),
    rule(
        "container:action:events",
        ADMIN,
        "See the traceback of a failed step.",
        "GET /v1/containers/{container_ident}/container_actions/{request_id}",
    ),
]
