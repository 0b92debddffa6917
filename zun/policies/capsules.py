"""Rules of capsules."""

from __future__ import annotations

from zun.policies.base import ADMIN, ADMIN_OR_OWNER, rule

RULES = [
    rule("capsule:create", ADMIN_OR_OWNER, "Create a capsule.", "POST /v1/capsules"),
    rule("capsule:delete", ADMIN_OR_OWNER, "Delete a capsule.", "DELETE /v1/capsules/{capsule_ident}"),
    rule(
        "capsule:delete_all_projects",
        ADMIN,
        "Delete a capsule of any project by name.",
        "DELETE /v1/capsules/{capsule_ident}",
    ),
    rule("capsule:get", ADMIN_OR_OWNER, "Show a capsule.", "GET /v1/capsules/{capsule_ident}"),
    rule(
        "capsule:get:host",
        ADMIN,
        "See the host of a capsule.",
        "GET /v1/capsules/{capsule_ident}",
        "GET /v1/capsules",
        "POST /v1/capsules",
    ),
    rule(
        "capsule:get_one_all_projects",
        ADMIN,
        "Show a capsule of any project by name.",
        "GET /v1/capsules/{capsule_ident}",
    ),
    rule("capsule:get_all", ADMIN_OR_OWNER, "List capsules of the own project.", "GET /v1/capsules"),
    rule("capsule:get_all_all_projects", ADMIN, "List capsules of all projects.", "GET /v1/capsules"),
]
