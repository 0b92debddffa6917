"""What Keystone tells of a token, as far as it is kept: names, roles and the end; never the token itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from zun.domain.caller import Caller


@dataclass(frozen=True, slots=True)
class Checked:
    """A token that Keystone knows."""

    caller: Caller
    """Without the token."""
    expires: datetime
    """Naive UTC."""

    def valid_at(self, now: datetime) -> bool:
        return now < self.expires


def parse(body: Any) -> Checked:
    """The answer of ``GET /v3/auth/tokens``. Raises ValueError when it is not one."""
    try:
        token: Mapping[str, Any] = body["token"]
        user = token["user"]
        project: Mapping[str, Any] = token.get("project") or {}
        caller = Caller(
            user_id=str(user["id"]),
            user_name=user.get("name"),
            user_domain_id=_domain(user, "id"),
            user_domain_name=_domain(user, "name"),
            project_id=project.get("id"),
            project_name=project.get("name"),
            project_domain_id=_domain(project, "id"),
            project_domain_name=_domain(project, "name"),
            domain_id=(token.get("domain") or {}).get("id"),
            system_scope="all" if (token.get("system") or {}).get("all") else None,
            is_admin_project=bool(token.get("is_admin_project", True)),
            roles=frozenset(str(role["name"]) for role in token.get("roles") or ()),
        )
        return Checked(caller, _time(token["expires_at"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no token in it: {error!r}") from error


def _domain(thing: Mapping[str, Any], key: str) -> str | None:
    found: str | None = (thing.get("domain") or {}).get(key)
    return found


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
