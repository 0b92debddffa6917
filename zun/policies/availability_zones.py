"""Rules of availability zones."""

from __future__ import annotations

from zun.policies.base import ADMIN_OR_OWNER, rule

RULES = [
    rule("availability_zones:get_all", ADMIN_OR_OWNER, "List availability zones.", "GET /v1/availability_zones"),
]
