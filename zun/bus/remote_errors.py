"""How errors cross the bus: the names of their classes and the message; never a traceback, never an internal's text."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from zun.domain.errors import EngineError, ZunError

log = logging.getLogger(__name__)

INTERNAL = "An unexpected error occurred on the node; its log tells more."


def encode(error: BaseException) -> dict[str, Any]:
    """JSON-like form. Anything but a ZunError is logged here and crosses as a bare ZunError."""
    if not isinstance(error, ZunError):
        log.error("action=bus-call result=internal-error", exc_info=error)
        return {"classes": [ZunError.__name__], "message": INTERNAL}
    classes = [kind.__name__ for kind in type(error).__mro__ if issubclass(kind, ZunError)]
    encoded: dict[str, Any] = {"classes": classes, "message": str(error.message)}
    if isinstance(error, EngineError):
        encoded["text"] = error.text
    return encoded


def decode(encoded: Mapping[str, Any]) -> ZunError:
    """The error again: the nearest class of its line that is known here, at worst ZunError."""
    known = _known(ZunError)
    names = encoded.get("classes")
    kind = next((known[name] for name in names if name in known), ZunError) if isinstance(names, list) else ZunError
    message = str(encoded.get("message", ""))
    # Constructors differ and would wrap the message a second time.
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.message = message
    if isinstance(error, EngineError):
        error.text = str(encoded.get("text", message))
    return error


def _known(base: type[ZunError]) -> dict[str, type[ZunError]]:
    found = {base.__name__: base}
    for kind in base.__subclasses__():
        found.update(_known(kind))
    return found
