"""The OpenAPI 3.1 document, made from the route table and its models; the same table always gives the same text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, cast

from pydantic import BaseModel

from zun import __version__
from zun.api.call import MAX_VERSION, MIN_VERSION, Call, Version
from zun.api.openapi_links import links
from zun.api.schemas import INTEGER, LINKS, TEXT, listed, obj
from zun.api.table import Route
from zun.api.v1.models.common import FREE
from zun.control.base import Control
from zun.domain.caller import Caller
from zun.domain.lifecycle import Status

_REF = "#/components/schemas/{model}"
_HAS_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_PARAMETER = re.compile(r"\{([a-z_]+)\}")
_HELP = obj({"rel": TEXT, "href": TEXT})
_ERROR = obj(
    {
        "errors": listed(
            obj(
                {
                    "request_id": {"type": "string", "const": ""},
                    "code": TEXT,
                    "status": INTEGER,
                    "title": TEXT,
                    "detail": TEXT,
                    "links": listed(_HELP),
                    "max_version": TEXT,
                    "min_version": TEXT,
                },
                frozenset({"max_version", "min_version"}),
            )
        )
    }
)
_UNAUTHORIZED = obj({"error": obj({"code": INTEGER, "title": TEXT, "message": TEXT})})
_ROOT_VERSION = obj({"id": TEXT, "links": LINKS, "status": TEXT, "max_version": TEXT, "min_version": TEXT})
_ROOT = obj({"name": TEXT, "description": TEXT, "versions": listed(_ROOT_VERSION), "default_version": _ROOT_VERSION})
_V1 = {
    "type": "object",
    "properties": {"id": {"const": "v1"}, "media_types": {"type": "array"}, "links": LINKS},
    "required": ["id", "media_types", "links"],
    "additionalProperties": LINKS,
}
_QUERY: dict[str, Any] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    "sort_dir": {"type": "string", "enum": ["asc", "desc"]},
    "all_projects": {"anyOf": [{"type": "boolean"}, FREE.schema()]},
    "auto_remove": {"anyOf": [{"type": "boolean"}, FREE.schema()]},
    "fault": {"anyOf": [{"type": "boolean"}, FREE.schema()]},
    "pressure": {"anyOf": [{"type": "boolean"}, FREE.schema()]},
    "wait_for": {"type": "string", "enum": [str(one) for one in Status]},
    "timeout": {"type": "number", "minimum": 0, "maximum": 3600},
    "memory": {"type": "integer", "minimum": 0, "maximum": 10**9 - 1},
}
_HEADERS: dict[str, Any] = {
    "RequestId": {
        "description": "Names the request in logs, and its action on a container.",
        "required": True,
        "schema": {"type": "string", "pattern": "^req-[0-9a-f-]{36}$"},
    },
    "Version": {
        "description": "The microversion that was used.",
        "schema": {"type": "string", "pattern": r"^container [0-9]+\.[0-9]+$"},
    },
    "Location": {
        "description": "URL of what was made.",
        "required": True,
        "schema": {"type": "string", "format": "uri"},
    },
    "Allow": {"description": "The methods there are.", "required": True, "schema": TEXT},
    "WWW-Authenticate": {"description": "Where tokens come from.", "required": True, "schema": TEXT},
}

_REQUEST_HEADERS: dict[str, dict[str, Any]] = {
    "Idempotency-Key": {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "Names this request: sent again with the same body it gives the same answer and makes nothing.",
        "schema": {"type": "string", "pattern": r"^[!-+\--~]{1,255}$"},
    },
    "Last-Event-ID": {
        "name": "Last-Event-ID",
        "in": "header",
        "required": False,
        "description": "The id of the last event that was received: the stream goes on behind it.",
        "schema": {"type": "string", "pattern": "^[0-9]{1,18}$"},
    },
}
"""What routes name in ``headers``."""


def document(routes: Sequence[Route], control: Control) -> dict[str, Any]:
    """The document; rows of one path and method are described by the newest."""
    schemas: dict[str, Any] = {"Error": _ERROR, "Unauthorized": _UNAUTHORIZED}
    paths: dict[str, Any] = {
        "/": {"get": _plain("root.discovery", "Versions of this service", _ROOT)},
        "/v1": {"get": _plain("v1.discovery", "Version 1", _V1, versioned=True)},
        "/healthcheck": {"get": _health()},
    }
    for rows in _by_operation(routes):
        newest = max(rows, key=lambda row: row.max_version)
        paths.setdefault(f"/v1{newest.path}", {})[newest.method.lower()] = _operation(
            rows, newest, routes, control, schemas
        )
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
            "headers": _HEADERS,
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
        },
    }


def _by_operation(routes: Iterable[Route]) -> list[list[Route]]:
    found: dict[tuple[str, str], list[Route]] = {}
    for route in routes:
        found.setdefault((route.path, route.method), []).append(route)
    return list(found.values())


def _operation(
    rows: Sequence[Route], newest: Route, routes: Sequence[Route], control: Control, schemas: dict[str, Any]
) -> dict[str, Any]:
    named = _PARAMETER.findall(newest.path)
    model = _model(newest, control)
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for name in named
    ]
    parameters.append(_version_header(rows, schemas))
    parameters.extend(_REQUEST_HEADERS[name] for name in newest.headers)
    described: dict[str, Any] = {
        "operationId": newest.operation,
        "tags": [newest.operation.partition(".")[0]],
        "summary": newest.summary or newest.operation,
        "parameters": parameters,
        "responses": _responses(rows, newest, links(newest, routes)),
    }
    if newest.policy:
        described["x-policy"] = newest.policy
    if model is not None:
        schema = _schema(model, schemas)
        if newest.method in _HAS_BODY:
            described["requestBody"] = {
                "required": newest.json_only,
                "content": {"application/json": _body(newest, schema)},
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
        waits=cast(Any, None),
    )
    return wanted(call)


def _schema(model: type[BaseModel], schemas: dict[str, Any]) -> dict[str, Any]:
    schema = model.model_json_schema(ref_template=_REF, by_alias=True)
    for name, part in schema.pop("$defs", {}).items():
        schemas[name] = part
    return schema


def _body(route: Route, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Members of a body that is not ``json_only`` may come in the query instead, so none is required."""
    found: dict[str, Any] = {
        "schema": dict(schema) if route.json_only else {k: v for k, v in schema.items() if k != "required"}
    }
    if route.example is not None:
        found["example"] = dict(route.example)
    return found


def _from_model(schema: Mapping[str, Any], *, required: bool) -> list[dict[str, Any]]:
    needed = schema.get("required", []) if required else []
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": part}
        for name, part in schema.get("properties", {}).items()
    ]


def _version_header(rows: Sequence[Route], schemas: dict[str, Any]) -> dict[str, Any]:
    lowest = min(row.min_version for row in rows)
    highest = max(row.max_version for row in rows)
    name = f"Versions_{lowest}_{highest}"
    schemas.setdefault(name, _versions(lowest, highest))
    return {
        "name": "OpenStack-API-Version",
        "in": "header",
        "required": lowest > MIN_VERSION,
        "description": f"Served from {lowest} to {highest}; {MIN_VERSION} without the header.",
        "schema": {"$ref": _REF.format(model=name)},
        "example": f"container {highest}",
    }


def _versions(lowest: Version, highest: Version) -> dict[str, Any]:
    served = [f"container {lowest.major}.{minor}" for minor in range(highest.minor, lowest.minor - 1, -1)]
    if highest == MAX_VERSION:
        served.insert(0, "container latest")
    return {"type": "string", "enum": served}


def _responses(rows: Sequence[Route], newest: Route, linked: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status in sorted({row.status for row in rows}):
        answer: dict[str, Any] = {"description": HTTPStatus(status).phrase, "headers": _headers("Version")}
        if status != 204:
            answer["content"] = _content(rows, status)
        if newest.locates:
            answer["headers"] |= _headers("Location")
        if linked:
            answer["links"] = dict(linked)
        found[str(status)] = answer
    statuses = {400, 403, 406, 503}
    for row in rows:
        statuses.update(row.raises)
    if newest.method in _HAS_BODY:
        statuses.update((408, 413))
    if newest.json_only:
        statuses.add(415)
    if "{" in newest.path:
        statuses.add(404)  # an empty segment names another path
        found["405"] = _refusal(405, "Error", "Version", "Allow")
    for status in sorted(statuses):
        found[str(status)] = _refusal(status, "Error", "Version")
    found["401"] = _refusal(401, "Unauthorized", "Version", "WWW-Authenticate")
    return dict(sorted(found.items()))


_EVENT = {
    "description": "Of each event; the last one is named end, and its data has the reason.",
    "type": "object",
    "properties": {"id": TEXT, "event": TEXT, "data": {"type": "string", "contentMediaType": "application/json"}},
    "required": ["event", "data"],
}


def _content(rows: Sequence[Route], status: int) -> dict[str, Any]:
    if any(row.events for row in rows):
        return {"text/event-stream": {"schema": _EVENT}}
    return {"application/json": {"schema": _answers(row for row in rows if row.status == status)}}


def _answers(rows: Iterable[Route]) -> dict[str, Any]:
    """The schema of the rows' answers; one of several where versions differ."""
    several: list[dict[str, Any]] = []
    for row in rows:
        if row.answer is not None and row.answer not in several:
            several.append(row.answer)
    if len(several) > 1:
        return {"anyOf": several}
    return several[0] if several else {}


def _headers(*names: str) -> dict[str, Any]:
    shown = {"Version": "OpenStack-API-Version"}
    refer = {shown.get(name, name): {"$ref": f"#/components/headers/{name}"} for name in names}
    return {"X-OpenStack-Request-Id": {"$ref": "#/components/headers/RequestId"}, **refer}


def _refusal(status: int, schema: str, *headers: str) -> dict[str, Any]:
    return {
        "description": HTTPStatus(status).phrase,
        "headers": _headers(*headers),
        "content": {"application/json": {"schema": {"$ref": _REF.format(model=schema)}}},
    }


def _plain(operation: str, summary: str, answer: Mapping[str, Any], *, versioned: bool = False) -> dict[str, Any]:
    headers = ("Version",) if versioned else ()
    ok = {"description": "OK", "headers": _headers(*headers), "content": {"application/json": {"schema": answer}}}
    return {
        "operationId": operation,
        "summary": summary,
        "security": [],
        "tags": ["discovery"],
        "responses": {"200": ok, "406": _refusal(406, "Error", *headers)},
    }


def _health() -> dict[str, Any]:
    def plain(description: str) -> dict[str, Any]:
        return {"description": description, "headers": _headers(), "content": {"text/plain": {"schema": TEXT}}}

    return {
        "operationId": "healthcheck",
        "summary": "Is this process fit to serve?",
        "security": [],
        "tags": ["discovery"],
        "responses": {"200": plain("OK"), "503": plain("Taken out of service by file")},
    }
