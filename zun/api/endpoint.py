"""From an ASGI request to a handler and back: the steps every operation goes through, in the contract's order."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from zun.api import auth, decoding, discovery, event_stream, metrics, microversion
from zun.api.call import Answer, Call, Events, Policy, Stream, Version
from zun.api.event_stream import send_events
from zun.api.faults import describe
from zun.api.openapi import document
from zun.api.request import (
    REQUEST_ID,
    accepts_json,
    base_url,
    raw_path,
    read_headers,
    send_json,
    send_stream,
    send_text,
)
from zun.api.router import Match, Router, choose, segments
from zun.api.table import Route
from zun.api.validation import validate
from zun.control.base import Control
from zun.control.status_waits import StatusWaits
from zun.domain.caller import Caller
from zun.domain.errors import MethodNotAllowed, NotAcceptable, RequestTimeout, RouteNotFound, Unauthorized
from zun.identity.base import Identity

LOG = logging.getLogger(__name__)
_BESIDE_ARCHIVE = 64 * 1024
"""Bytes of a body around its archive."""
_NO_BODY = frozenset({"GET", "HEAD", "OPTIONS"})


class _Request:
    """What the steps learn of one request on the way."""

    __slots__ = (
        "answer_headers", "base", "headers", "method", "operation", "project", "receive", "request_id", "scope", "user",
    )  # fmt: skip

    def __init__(self, scope: Scope, receive: Receive, public_endpoint: str) -> None:
        self.scope = scope
        self.receive = receive
        self.method: str = scope["method"]
        self.headers = read_headers(scope)
        self.base = public_endpoint or base_url(scope, self.headers)
        self.request_id: str = scope[REQUEST_ID]
        self.operation = "unrouted"
        self.user = self.project = "-"
        self.answer_headers: list[tuple[bytes, bytes]] = []

    async def gone(self) -> None:
        """See ``Call.gone``."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


class Endpoint:
    """The innermost ASGI application."""

    def __init__(
        self,
        control: Control,
        identity: Identity,
        policy: Policy,
        routes: Sequence[Route],
        extras: Mapping[str, ASGIApp],
        stopping: asyncio.Event,
    ) -> None:
        self._control = control
        self._identity = identity
        self._policy = policy
        self._router = Router(routes)
        self._extras = extras
        self._stopping = stopping
        self._waits = StatusWaits(control.db, control.conf.api.wait_interval, stopping)
        self._routes = routes
        self._disable_file = Path(control.conf.api.healthcheck_disable_file)
        self._largest: int = control.conf.api.max_body_bytes
        self._largest_archive = max(self._largest, control.conf.api.max_archive_bytes * 4 // 3 + _BESIDE_ARCHIVE)
        self._archives = asyncio.Semaphore(control.conf.api.parallel_archives)
        self._patience: float = control.conf.api.body_timeout
        self._public_endpoint: str = (control.conf.api.public_endpoint or "").rstrip("/")

    @cached_property
    def _document(self) -> bytes:
        """Made when it is first asked for: it takes longer than the rest of an API's start together."""
        return orjson.dumps(document(self._routes, self._control))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        request = _Request(scope, receive, self._public_endpoint)
        parts = segments(raw_path(scope))
        first = parts[0] if parts else ""
        if first in self._extras:
            await self._extras[first](scope, receive, send)
            return
        if parts is not None and len(parts) == 1 and await self._served_outside(first, request, send):
            return
        try:
            status, body = await self._answer(request, parts)
            with_body = request.method != "HEAD"
            if isinstance(body, Events):
                async with body.held:
                    await send_events(receive, send, status, body, request.answer_headers)
            elif isinstance(body, Stream):
                await send_stream(send, status, body, request.answer_headers, with_body=with_body)
            else:
                await send_json(send, status, body, request.answer_headers, with_body=with_body)
        except decoding.ClientDisconnected:
            status = 499
        except Exception as error:
            status = await self._fail(request, error, send)
        seconds = time.perf_counter() - started
        metrics.count(request.operation, status, seconds)
        LOG.info(
            "action=request operation=%s status=%s ms=%.1f request_id=%s user=%s project=%s method=%s",
            request.operation,
            status,
            seconds * 1000,
            request.request_id,
            request.user,
            request.project,
            request.method,
        )

    async def _fail(self, request: _Request, error: Exception, send: Send) -> int:
        status, body = describe(
            error, base_url=request.base, request_id=request.request_id, operation=request.operation
        )
        headers = request.answer_headers
        if isinstance(error, Unauthorized):
            headers = [*headers, (b"www-authenticate", self._identity.www_authenticate.encode("latin-1", "replace"))]
        if isinstance(error, RequestTimeout):
            headers = [*headers, (b"connection", b"close")]
        await send_json(send, status, body, headers, with_body=request.method != "HEAD")
        return status

    async def _served_outside(self, name: str, request: _Request, send: Send) -> bool:
        """/healthcheck, /openapi.json and /metrics: no token, no version, no database."""
        if request.method not in ("GET", "HEAD"):
            return False
        with_body = request.method == "GET"
        if name == "healthcheck":
            down = self._disable_file.exists()
            text = b"DISABLED BY FILE" if down else b"OK"
            await send_text(send, 503 if down else 200, text, "text/plain; charset=UTF-8", with_body=with_body)
            return True
        if name == "openapi.json":
            await send_text(send, 200, self._document, "application/json", with_body=with_body)
            return True
        forwarded = b"x-forwarded-for" in request.headers or b"forwarded" in request.headers
        if name == "metrics" and metrics.is_local(request.scope.get("client"), forwarded=forwarded):
            kind = "text/plain; version=0.0.4; charset=utf-8"
            await send_text(send, 200, metrics.text(), kind, with_body=with_body)
            return True
        return False

    async def _answer(self, request: _Request, parts: list[str] | None) -> tuple[int, Any]:
        if parts is None:
            raise RouteNotFound("The path is not valid text.")
        self._check_accept(request, parts)
        if not parts:
            request.operation = "root.discovery"
            _only_get(request)
            return 200, discovery.root(request.base)
        if parts[0] in ("v1", "v1.json") and len(parts) == 1:
            request.operation = "v1.discovery"
            _only_get(request)
            self._negotiate(request)
            return 200, discovery.v1(request.base)
        if len(parts) == 1 and parts[0] in ("healthcheck", "openapi.json"):
            _only_get(request)
        match = self._router.find(parts[1:] if parts[0] == "v1" else parts)
        if match is None:
            raise RouteNotFound("The resource could not be found.")
        rows = match.methods.get(request.method)
        if rows is None:
            raise _wrong_method(request, match)
        request.operation = rows[0].operation
        version = self._negotiate(request)
        route = choose(rows, version)
        if route is None:
            raise NotAcceptable("")
        request.operation = route.operation
        return await self._perform(request, route, version, match.parameters(request.method))

    def _check_accept(self, request: _Request, parts: list[str]) -> None:
        header = request.headers.get(b"accept")
        if accepts_json(header):
            return
        match = self._router.find(parts[1:]) if parts and parts[0] == "v1" else None
        rows = match.methods.get(request.method, ()) if match else ()
        if not (event_stream.accepts(header) and any(row.events for row in rows)):
            raise NotAcceptable("Only application/json is produced.")

    def _negotiate(self, request: _Request) -> Version:
        try:
            version = microversion.parse(request.headers.get(b"openstack-api-version"))
        except microversion.VersionUnsupported as error:
            request.answer_headers.extend(microversion.headers(error.version))
            raise
        request.answer_headers.extend(microversion.headers(version))
        return version

    async def _perform(
        self, request: _Request, route: Route, version: Version, path: Mapping[str, str]
    ) -> tuple[int, Any]:
        caller = await self._who(request)
        request.user, request.project = caller.user_id, caller.project_id or "-"
        auth.guard_reader(caller, route.method, route.policy or route.operation.replace(".", ":", 1))
        query = decoding.decode_query(request.scope.get("query_string", b""))
        if route.takes_archive:
            async with self._archives:
                return await self._carry_out(request, route, version, path, caller, query)
        return await self._carry_out(request, route, version, path, caller, query)

    async def _who(self, request: _Request) -> Caller:
        tokens = request.headers.get(b"x-auth-token"), request.headers.get(b"x-service-token")
        return await auth.authenticate(self._identity, self._policy, *tokens)

    async def _carry_out(
        self,
        request: _Request,
        route: Route,
        version: Version,
        path: Mapping[str, str],
        caller: Caller,
        query: Mapping[str, list[str]],
    ) -> tuple[int, Any]:
        body = await self._body(request, route)
        call = Call(
            control=self._control,
            policy=self._policy,
            caller=caller,
            version=version,
            request_id=request.request_id,
            base_url=request.base,
            path=path,
            query=query,
            body=body,
            operation=route.operation,
            headers=_named(request, route),
            stopping=self._stopping,
            waits=self._waits,
            gone=request.gone,
            again=lambda: self._who(request),
        )
        if route.model is not None:
            call.args = _arguments(call, route)
        if route.policy is not None:
            self._policy.enforce(route.policy, caller)
        answer: Answer = await route.handler(call)
        for name, value in answer.headers.items():
            request.answer_headers.append((name.lower().encode("latin-1"), value.encode("latin-1")))
        return answer.status or route.status, answer.body

    async def _body(self, request: _Request, route: Route) -> dict[str, Any]:
        if request.method in _NO_BODY:
            return {}
        declared = request.headers.get(b"content-length")
        largest = self._largest_archive if route.takes_archive else self._largest
        raw = await decoding.read_body(request.receive, declared, largest, self._patience)
        return decoding.decode_body(
            raw,
            request.headers.get(b"content-type"),
            json_only=route.json_only,
            strict=route.model is not None or route.json_only,
            any_text=route.takes_archive,
        )


def _arguments(call: Call, route: Route) -> BaseModel:
    """The route's model from body and query merged (the query alone first where the contract says so)."""
    wanted = route.model
    model: type[BaseModel]
    model = wanted if isinstance(wanted, type) else wanted(call) if wanted else BaseModel
    if route.query_only:
        only: BaseModel = validate(model, decoding.merge(call.query, {}), call.query)
        if not call.body:
            return only
    names = call.query.keys() - call.body.keys()
    return validate(model, decoding.merge(call.query, call.body), names)


def _named(request: _Request, route: Route) -> dict[str, str]:
    """The headers that the route reads."""
    values = {name: request.headers.get(name.lower().encode()) for name in route.headers}
    return {name: value for name, value in values.items() if value is not None}


def _only_get(request: _Request) -> None:
    if request.method != "GET":
        request.answer_headers.append((b"allow", b"GET"))
        raise MethodNotAllowed(f"The method {request.method} is not allowed for this resource.")


def _wrong_method(request: _Request, match: Match) -> MethodNotAllowed:
    request.answer_headers.append((b"allow", ", ".join(sorted(match.methods)).encode()))
    return MethodNotAllowed(f"The method {request.method} is not allowed for this resource.")
