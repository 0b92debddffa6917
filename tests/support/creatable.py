"""Generated creates that a deployment takes; for the hooks of schemathesis."""

from __future__ import annotations

from typing import Any

from schemathesis import Case

_KEPT = ("name", "labels", "environment", "interactive", "tty", "workdir", "hostname", "auto_heal", "entrypoint")


def make_creatable(case: Case[Any]) -> None:
    """Keeps of the generated body what no deployment refuses."""
    drawn = case.body if isinstance(case.body, dict) else {}
    kept = {name: drawn[name] for name in _KEPT if drawn.get(name)}
    if not str(kept.get("workdir", "/")).startswith("/"):
        del kept["workdir"]
    case.query = {"run": "true"}
    case.body = {"image": "busybox", "cpu": 0.1, "memory": 4, **kept}
