"""Loaded by the schemathesis command (SCHEMATHESIS_HOOKS): half of its requests meet things that exist.

Generated identifiers name nothing, and a generated image is no image: every answer would be 404 or 400.
"""

from __future__ import annotations

import random
from typing import Any

import schemathesis
from schemathesis import Case
from schemathesis.generation.meta import TestPhase

from tests.support.creatable import make_creatable

ALIVE = ("alive-0", "alive-1", "alive-2", "alive-3")
"""Names of containers that run when the command starts."""
_ENDING = ("delete", "kill", "stop", "pause", "rename", "update", "resize_container")
"""Operations that end a container, or give it another name."""
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
        case.query = {}  # a chain looks whether it is there; parameters are drawn in the other phases
    elif (
        not stateful and "container_ident" in case.path_parameters and operation not in _ENDING and _DRAW.random() < 0.5
    ):
        case.path_parameters["container_ident"] = _DRAW.choice(ALIVE)
