"""Rules of hosts."""

from __future__ import annotations

from zun.policies.base import ADMIN, rule

RULES = [
    rule("host:get_all", ADMIN, "List hosts.", "GET /v1/hosts"),
    rule("host:get", ADMIN, "Show a host.", "GET /v1/hosts/{host_ident}"),
]
