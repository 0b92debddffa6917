"""Rules of services."""

from __future__ import annotations

from zun.policies.base import ADMIN, rule

RULES = [
    rule(
        "zun-service:delete",
        ADMIN,
        "Delete the record of a service.",
        "DELETE /v1/services",
        "DELETE /v1/services/{host}/{binary}",
    ),
    rule("zun-service:disable", ADMIN, "Disable a service.", "PUT /v1/services/disable"),
    rule("zun-service:enable", ADMIN, "Enable a service.", "PUT /v1/services/enable"),
    rule(
        "zun-service:force_down", ADMIN, "Mark a service as down, or take the mark back.", "PUT /v1/services/force_down"
    ),
    rule("zun-service:get_all", ADMIN, "List services.", "GET /v1/services"),
]
