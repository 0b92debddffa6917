"""Rules of quotas."""

from __future__ import annotations

from zun.policies.base import ADMIN, ADMIN_OR_OWNER, rule

RULES = [
    rule("quota:update", ADMIN, "Change the limits of a project.", "PUT /v1/quotas/{project_id}"),
    rule("quota:delete", ADMIN, "Return a project to the default limits.", "DELETE /v1/quotas/{project_id}"),
    rule("quota:get", ADMIN_OR_OWNER, "Show limits and use of a project.", "GET /v1/quotas/{project_id}"),
    rule("quota:get_default", ADMIN_OR_OWNER, "Show the default limits.", "GET /v1/quotas/{project_id}/defaults"),
]
