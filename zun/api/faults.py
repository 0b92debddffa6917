"""Errors as the contract's body. Surprises get a correlation id, are logged once, and tell nothing of the inside."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from zun.api.microversion import VersionUnsupported, unsupported_body
from zun.api.text import cut
from zun.domain.errors import Unauthorized, Unavailable, ZunError
from zun.store.database import DatabaseUnavailable

LOG = logging.getLogger(__name__)

MAX_MESSAGE = 1000
"""Longest title: names that callers send are part of many, and are not echoed without end."""


def error_body(status: int, slug: str, title: str, detail: str) -> dict[str, Any]:
    """``{"errors": [...]}``; ``request_id`` is empty by contract, the id is in the header."""
    return {
        "errors": [
            {
                "request_id": "",
                "code": f"container.{slug}",
                "status": status,
                "title": title,
                "detail": detail,
                "links": [],
            }
        ]
    }


UNAUTHORIZED_BODY = {
    "error": {
        "code": 401,
        "title": "Unauthorized",
        "message": "The request you have made requires authentication.",
    }
}


def describe(error: Exception, *, base_url: str, request_id: str, operation: str) -> tuple[int, dict[str, Any]]:
    """(status, body) for any exception; below 500 title and detail are the message."""
    if isinstance(error, VersionUnsupported):
        return 406, unsupported_body(base_url, error.version)
    if isinstance(error, Unauthorized):
        return 401, UNAUTHORIZED_BODY
    if isinstance(error, ZunError) and error.status < 500:
        message = cut(error.message, MAX_MESSAGE)
        return error.status, error_body(error.status, error.slug, message, message)
    status = error.status if isinstance(error, ZunError) else 500
    correlation = str(uuid4())
    if isinstance(error, Unavailable):
        LOG.error(
            "action=request outcome=unavailable operation=%s request_id=%s correlation=%s error=%s",
            operation,
            request_id,
            correlation,
            error,
        )
    else:
        LOG.error(
            "action=request outcome=failed operation=%s request_id=%s correlation=%s",
            operation,
            request_id,
            correlation,
            exc_info=error,
        )
    reason = HTTPStatus(status).phrase
    hidden = (
        f"Your request could not be handled because of a problem in the server. Error Correlation id is: {correlation}"
    )
    if _is_database(error):
        return status, error_body(status, "", "The database does not answer now. Try again later.", hidden)
    if isinstance(error, Unavailable) and error.message:
        message = cut(error.message, MAX_MESSAGE)
        return status, error_body(status, error.slug, message, f"{message} Error Correlation id is: {correlation}")
    return status, error_body(status, "", reason, hidden)


def _is_database(error: BaseException | None) -> bool:
    """Also where a part that lives in the database (the embedded Placement, say) reports it as its own outage."""
    while error is not None:
        if isinstance(error, DatabaseUnavailable):
            return True
        error = error.__cause__
    return False
