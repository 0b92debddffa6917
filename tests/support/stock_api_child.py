"""Runs in the stock client's virtual environment: one zunclient call a line of standard input, one answer a line.

A call: ``{"version", "method": "containers.run", "args", "kwargs"}``. The answer: ``{"result"}``, or ``{"error"}`` with
the exception's class, its HTTP status and its text, as Heat and Horizon meet them. Imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any


def plain(value: Any) -> Any:
    """Resources as the objects they were made from; ``(response, body)`` pairs of actions as the body."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tuple):
        return plain(value[-1])
    if isinstance(value, bytes):
        return value.decode()
    return value.to_dict() if hasattr(value, "to_dict") else value


def answer(call: dict[str, Any]) -> dict[str, Any]:
    manager, method = call["method"].split(".")
    try:
        zun = import_module("zunclient.client").Client(
            call["version"], auth_token=os.environ["OS_TOKEN"], endpoint_override=os.environ["OS_ENDPOINT"]
        )
        return {"result": plain(getattr(getattr(zun, manager), method)(*call["args"], **call["kwargs"]))}
    except Exception as error:  # whatever it is, the test judges it
        status = getattr(error, "http_status", None) or getattr(error, "code", None)
        return {"error": {"class": type(error).__name__, "status": status, "text": str(error)}}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
