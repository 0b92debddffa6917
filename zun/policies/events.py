"""Rules of status events."""

from __future__ import annotations

from zun.policies.base import ADMIN, ADMIN_OR_OWNER, rule

RULES = [
    rule("event:get_all", ADMIN_OR_OWNER, "Listen to status changes in the own project.", "GET /v1/events"),
    rule("event:get_all_all_projects", ADMIN, "Listen to status changes in all projects.", "GET /v1/events"),
]
