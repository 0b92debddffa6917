"""Rules of registries."""

from __future__ import annotations

from zun.policies.base import ADMIN, ADMIN_OR_OWNER, rule

RULES = [
    rule("registry:create", ADMIN_OR_OWNER, "Store a registry.", "POST /v1/registries"),
    rule("registry:delete", ADMIN_OR_OWNER, "Delete a registry.", "DELETE /v1/registries/{registry_ident}"),
    rule("registry:get_one", ADMIN_OR_OWNER, "Show a registry.", "GET /v1/registries/{registry_ident}"),
    rule("registry:get_all", ADMIN_OR_OWNER, "List registries of the own project.", "GET /v1/registries"),
    rule("registry:get_all_all_projects", ADMIN, "List registries of all projects.", "GET /v1/registries"),
    rule("registry:update", ADMIN_OR_OWNER, "Change a registry.", "PATCH /v1/registries/{registry_ident}"),
]
