"""Rules of quota classes."""

from __future__ import annotations

from zun.policies.base import ADMIN, rule

RULES = [
    rule(
        "quota_class:update", ADMIN, "Change the limits of a quota class.", "PUT /v1/quota_classes/{quota_class_name}"
    ),
    rule("quota_class:get", ADMIN, "Show the limits of a quota class.", "GET /v1/quota_classes/{quota_class_name}"),
]
