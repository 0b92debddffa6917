"""The OpenAPI 3.1 document, made from the route table and its models; the same table always gives the same text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, cast

from pydantic import BaseModel

from zun import __version__
from zun.api.call import MAX_VERSION, MIN_VERSION, Call
from zun.api.schemas import BOOLEAN, INTEGER, TEXT, obj
from zun.api.table import Route
from zun.control.base import Control
from zun.domain.caller import Caller

_REF = "#/components/schemas/{model}"
_HAS_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_PARAMETER = re.compile(r"\{([a-z_]+)\}")
_ERROR = obj(
    {
        "errors": {
            "type": "array",
            "items": obj(
                {
                    "request_id": TEXT,
                    "code": TEXT,
                    "status": INTEGER,
                    "title": TEXT,
                    "detail": TEXT,
                    "links": {"type": "array", "items": {"type": "object"}},
                    "max_version": TEXT,
                    "min_version": TEXT,
                },
                frozenset({"max_version", "min_version"}),
            ),
        }
    }
)
_UNAUTHORIZED = obj({"error": obj({"code": INTEGER, "title": TEXT, "message": TEXT})})
_QUERY = {
    "limit": {"type": "integer", "minimum": 1},
    "sort_dir": {"type": "string", "enum": ["asc", "desc"]},
    "all_projects": {"anyOf": [BOOLEAN, TEXT]},
}


def document(routes: Sequence[Route], control: Control) -> dict[str, Any]:
    """The document; rows of one path and method are described by the newest."""
    schemas: dict[str, Any] = {"Error": _ERROR, "Unauthorized": _UNAUTHORIZED}
    paths: dict[str, Any] = {
        "/": {"get": _plain("root.discovery", "Versions of this service")},
        "/v1": {"get": _plain("v1.discovery", "Version 1", extra=("406",))},
        "/healthcheck": {"get": _health()},
    }
    for rows in _by_operation(routes):
        newest = max(rows, key=lambda row: row.max_version)
        paths.setdefault(f"/v1{newest.path}", {})[newest.method.lower()] = _operation(rows, newest, control, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "OpenStack Zun API",
            "version": __version__,
            "description": f"Containers as cloud resources. Microversions {MIN_VERSION} to {MAX_VERSION}.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
        },
    }


def _by_operation(routes: Iterable[Route]) -> list[list[Route]]:
    found: dict[tuple[str, str], list[Route]] = {}
    for route in routes:
        found.setdefault((route.path, route.method), []).append(route)
    return list(found.values())


def _operation(rows: Sequence[Route], newest: Route, control: Control, schemas: dict[str, Any]) -> dict[str, Any]:
    named = _PARAMETER.findall(newest.path)
    model = _model(newest, control)
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for name in named
    ]
    parameters.append(_version_header(rows))
    described: dict[str, Any] = {
        "operationId": newest.operation,
        "tags": [newest.operation.partition(".")[0]],
        "summary": newest.summary or newest.operation,
        "parameters": parameters,
        "responses": _responses(rows, newest, bool(named)),
    }
    if newest.policy:
        described["x-policy"] = newest.policy
    if model is not None:
        schema = _schema(model, schemas)
        if newest.method in _HAS_BODY:
            described["requestBody"] = {
                "required": newest.json_only,
                "content": {"application/json": {"schema": schema if newest.json_only else _optional(schema)}},
            }
        if not newest.json_only and newest.method != "PATCH":
            required = newest.method not in _HAS_BODY or newest.query_only
            parameters.extend(_from_model(schema, required=required))
    parameters.extend(
        {"name": name, "in": "query", "required": False, "schema": _QUERY.get(name, TEXT)} for name in newest.parameters
    )
    return described


def _model(route: Route, control: Control) -> type[BaseModel] | None:
    wanted = route.model
    if wanted is None or isinstance(wanted, type):
        return wanted
    call = Call(
        control=control,
        policy=cast(Any, None),
        caller=Caller("", None),
        version=route.max_version,
        request_id="",
        base_url="",
        path={},
        query={},
        body={},
    )
    return wanted(call)


def _schema(model: type[BaseModel], schemas: dict[str, Any]) -> dict[str, Any]:
    schema = model.model_json_schema(ref_template=_REF, by_alias=True)
    for name, part in schema.pop("$defs", {}).items():
        schemas[name] = part
    return schema


def _optional(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The body of an operation whose members may come in the query instead."""
    return {key: value for key, value in schema.items() if key != "required"}


def _from_model(schema: Mapping[str, Any], *, required: bool) -> list[dict[str, Any]]:
    needed = schema.get("required", []) if required else []
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": part}
        for name, part in schema.get("properties", {}).items()
    ]


def _version_header(rows: Sequence[Route]) -> dict[str, Any]:
    lowest = min(row.min_version for row in rows)
    highest = max(row.max_version for row in rows)
    return {
        "name": "OpenStack-API-Version",
        "in": "header",
        "required": lowest > MIN_VERSION,
        "description": f"Served from {lowest} to {highest}; {MIN_VERSION} without the header.",
        "schema": {"type": "string", "examples": [f"container {highest}"]},
    }


def _responses(rows: Sequence[Route], newest: Route, has_parameters: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status in sorted({row.status for row in rows}):
        answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
        if status != 204:
            answer["content"] = {"application/json": {"schema": newest.answer or {}}}
        found[str(status)] = answer
    statuses = {400, 403, 406, 503}
    for row in rows:
        statuses.update(row.raises)
    if newest.method in _HAS_BODY:
        statuses.add(413)
    if newest.json_only:
        statuses.add(415)
    if has_parameters:
        statuses.update((404, 405))
    for status in sorted(statuses):
        found[str(status)] = _refusal(status, "Error")
    found["401"] = _refusal(401, "Unauthorized")
    return dict(sorted(found.items()))


def _refusal(status: int, schema: str) -> dict[str, Any]:
    return {
        "description": HTTPStatus(status).phrase,
        "content": {"application/json": {"schema": {"$ref": _REF.format(model=schema)}}},
    }


def _plain(operation: str, summary: str, extra: Sequence[str] = ()) -> dict[str, Any]:
    answers = {"200": {"description": "OK", "content": {"application/json": {"schema": {"type": "object"}}}}}
    for status in {*extra, "406"}:
        answers[status] = _refusal(int(status), "Error")
    return {"operationId": operation, "summary": summary, "security": [], "tags": ["discovery"], "responses": answers}


def _health() -> dict[str, Any]:
    text = {"text/plain": {"schema": TEXT}}
    return {
        "operationId": "healthcheck",
        "summary": "Is this process fit to serve?",
        "security": [],
        "tags": ["discovery"],
        "responses": {
            "200": {"description": "OK", "content": text},
            "503": {"description": "Taken out of service by file", "content": text},
        },
    }
