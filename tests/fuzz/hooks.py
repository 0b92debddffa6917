"""Loaded by the schemathesis command (SCHEMATHESIS_HOOKS): half of its requests meet things that exist.

Generated identifiers name nothing, and a generated image is no image: every answer would be 404 or 400. What exists is
in the file ZUN_FUZZ_IDENTS, by the names of parameters.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis import Case
from schemathesis.generation.meta import TestPhase

from tests.support.creatable import make_creatable

_KNOWN: dict[str, list[str]] = json.loads(Path(os.environ["ZUN_FUZZ_IDENTS"]).read_text())
_ENDING = ("delete", "delete_several", "kill", "stop", "pause", "rename", "update", "resize_container")
_DRAW = random.Random(20250101)
"""Not one in two by count: a check sends its request once more, so that every first one could be the other half."""


@schemathesis.hook
def before_call(context: Any, case: Case[Any], kwargs: dict[str, Any]) -> None:
    """Changes a generated request just before it is sent."""
    kind, _, operation = str(case.operation.definition.raw.get("operationId", "")).partition(".")
    if case.query and "wait_for" in case.query:  # what is drawn need not come
        case.query["timeout"] = "0"
    stateful = case.meta is not None and case.meta.phase.name == TestPhase.STATEFUL
    if stateful and (kind, operation) == ("container", "create"):
        make_creatable(case)
    elif stateful and (kind, operation) == ("container", "show"):
        if _DRAW.random() < 0.5:  # a chain looks whether it is there
            case.query = {}
    elif (stateful or operation not in _ENDING) and _DRAW.random() < 0.5:
        _meet_what_exists(case, kind, operation, stateful=stateful)


def _meet_what_exists(case: Case[Any], kind: str, operation: str, *, stateful: bool) -> None:
    """Chains have identifiers of their own, by links, where these say what is about containers."""
    places = (case.path_parameters, case.query, case.body) if kind == "service" else (case.path_parameters,)
    for name, values in _KNOWN.items():
        for place in places:
            if isinstance(place, dict) and name in place and values and not (stateful and name == "container_ident"):
                place[name] = _DRAW.choice(values)
    if operation == "delete_several" and case.query:
        values = _KNOWN.get(f"{kind}_ident", [])
        case.query["ids"] = [_DRAW.choice(values)] if values else case.query.get("ids")
