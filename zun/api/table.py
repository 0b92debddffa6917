"""The shape of one row of the route table: the API as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from zun.api.call import MAX_VERSION, MIN_VERSION, Call, Handler, Version


@dataclass(frozen=True, slots=True)
class Route:
    """One operation. Rows of the same method and path differ by version range; none fitting is 406."""

    method: str
    path: str
    """``/containers/{container_ident}/start``, below ``/v1``."""
    operation: str
    """``container.start``; names it in logs, metrics and the OpenAPI document."""
    handler: Handler
    status: int = 200
    min_version: Version = MIN_VERSION
    max_version: Version = MAX_VERSION
    policy: str | None = None
    """Rule enforced before the handler on the caller's own project; None: the handler does (object rules)."""
    model: type[BaseModel] | Callable[[Call], type[BaseModel]] | None = None
    """Validates body and query merged; unknown members are refused. None: anything is ignored."""
    query_only: bool = False
    """The query by itself has to satisfy ``model`` (commit, network_detach)."""
    json_only: bool = False
    """Demands Content-Type application/json (415 else)."""
    events: bool = False
    """The success is a stream of server-sent events (``zun.api.call.Events``)."""
    takes_archive: bool = False
    """The body carries an archive: it may be as large as [api]/max_archive_bytes makes it, and any text."""
    answer: dict[str, Any] | None = None
    """JSON schema of the success body, for the OpenAPI document."""
    summary: str = ""
    raises: tuple[int, ...] = ()
    """Statuses below 500 beyond 400, 401, 403, 406 that callers can see."""
    parameters: tuple[str, ...] = ()
    """Query parameters read without a model, for the OpenAPI document."""
    headers: tuple[str, ...] = ()
    """Request headers that the handler reads, as they are written; ``Call.headers`` has these and no others."""
    example: Mapping[str, Any] | None = None
    """A body that works, for the OpenAPI document."""
    wide: str | None = None
    """A path parameter that may span several segments (names with slashes)."""
    locates: bool = False
    """Is the success answered with a Location?"""
