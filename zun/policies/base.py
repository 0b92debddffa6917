"""Rules that others refer to, and how a documented rule is written."""

from __future__ import annotations

from typing import Any, TypeAlias

from oslo_policy import policy

Rule: TypeAlias = Any
"""``oslo_policy.policy.RuleDefault``."""

ADMIN = "rule:context_is_admin"
ADMIN_ROLE = "role:admin"
ADMIN_OR_OWNER = "is_admin:True or project_id:%(project_id)s"
NOBODY = "rule:deny_everybody"


def rule(name: str, check: str, description: str, *operations: str) -> Rule:
    """A documented rule; operations as ``GET /v1/containers``."""
    listed: Any = [dict(zip(("method", "path"), one.split(" ", 1), strict=True)) for one in operations]
    return policy.DocumentedRuleDefault(name, check, description, listed)


RULES = [
    policy.RuleDefault("context_is_admin", "role:admin", "Who is an administrator."),
    policy.RuleDefault("admin_or_owner", ADMIN_OR_OWNER, "Administrators and members of the owning project."),
    policy.RuleDefault("admin_api", ADMIN, "Operations for administrators only."),
    policy.RuleDefault("deny_everybody", "!", "Nobody, administrators included."),
]
