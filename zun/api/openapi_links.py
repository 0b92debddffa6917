"""Links of the OpenAPI document: which answer holds the identifier that another operation's path asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zun.api.table import Route

_SOURCES = (
    # operation, path parameter, where its answer (or its own request) has the value
    ("container.create", "container_ident", "$response.body#/uuid"),
    ("container.list", "container_ident", "$response.body#/containers/0/uuid"),
    ("container_action.list", "request_ident", "$response.body#/containerActions/0/request_id"),
    ("registry.create", "registry_ident", "$response.body#/registry/uuid"),
    ("registry.list", "registry_ident", "$response.body#/registries/0/uuid"),
    ("host.list", "host_ident", "$response.body#/hosts/0/uuid"),
    ("quota.update", "project_id", "$request.path.project_id"),
    ("quota_class.update", "quota_class_name", "$request.path.quota_class_name"),
)


def links(source: Route, routes: Sequence[Route]) -> dict[str, Any]:
    """Links of ``source``'s success answer, by name: to every operation whose path it can fill."""
    found: dict[str, Any] = {}
    for operation, parameter, expression in _SOURCES:
        if operation != source.operation:
            continue
        own = [name for name in _names(source.path) if name != parameter]
        values = {parameter: expression} | {name: f"$request.path.{name}" for name in own}
        for target in routes:
            wanted = _names(target.path)
            if target.operation != operation and parameter in wanted and set(wanted) <= values.keys():
                found[target.operation] = {
                    "operationId": target.operation,
                    "parameters": {name: values[name] for name in wanted},
                }
    return found


def _names(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]
