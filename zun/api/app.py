"""The API as an ASGI application: the onion of what surrounds every request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any
from uuid import uuid4

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from zun.api.call import Policy
from zun.api.endpoint import Endpoint
from zun.api.request import REQUEST_ID, strip_identity
from zun.api.routes import ROUTES
from zun.api.table import Route
from zun.control.base import Control
from zun.identity.base import Identity

_CORS_METHODS = ("GET", "PUT", "POST", "DELETE", "PATCH")
_CORS_REQUEST = (
    "Content-Type",
    "X-Auth-Token",
    "X-Identity-Status",
    "X-Roles",
    "X-Service-Catalog",
    "X-User-Id",
    "X-Project-Id",
    "X-OpenStack-Request-ID",
    "X-Server-Management-Url",
    "OpenStack-API-Version",
    "Idempotency-Key",
)
_CORS_EXPOSED = (
    "X-Auth-Token",
    "X-Subject-Token",
    "X-Service-Token",
    "X-OpenStack-Request-ID",
    "X-Server-Management-Url",
    "OpenStack-API-Version",
    "OpenStack-API-Minimum-Version",
    "OpenStack-API-Maximum-Version",
    "Location",
    "Idempotency-Replayed",
)


def create_app(
    control: Control,
    identity: Identity,
    policy: Policy,
    *,
    extras: Mapping[str, ASGIApp] | None = None,
    routes: Sequence[Route] | None = None,
    stopping: asyncio.Event | None = None,
) -> ASGIApp:
    """The whole API. ``extras``: ASGI applications served by first path segment, without a token (an embedded
    identity service, say); ``routes``: another table than the product's, for tests; ``stopping``: set when requests
    that wait for news are to be answered at once."""
    # From the outside in: lifespan, then the request id (so that every answer has one, refusals of CORS too), identity
    # headers dropped (before anything can read them), CORS (a preflight has no token), then the endpoint, which turns
    # every error into the contract's body and does the rest in order: extras, health, route, version, token, body,
    # model, rule, handler.
    table = ROUTES if routes is None else routes
    app: ASGIApp = Endpoint(control, identity, policy, table, extras or {}, stopping or asyncio.Event())
    origins = list(control.conf.api.cors_allowed_origins)
    if origins:
        app = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=_CORS_METHODS,
            allow_headers=_CORS_REQUEST,
            expose_headers=_CORS_EXPOSED,
        )
    return _Outermost(app)


class _Outermost:
    """Makes the request id and drops identity headers; answers the server's lifespan messages."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        request_id = f"req-{uuid4()}"
        scope[REQUEST_ID] = request_id
        strip_identity(scope)
        header = (b"x-openstack-request-id", request_id.encode())

        async def send_with_id(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), header]
            await send(message)

        await self._app(scope, receive, send_with_id)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
