"""Why something is in ``Error``: which step is told, and which is not."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from zun.compute.journal import _kind
from zun.domain.container import Type
from zun.domain.errors import ImagePullFailed, ZunError
from zun.domain.fault import Failure, Row, Step, fault_of

NOW = datetime(2026, 1, 2, 3, 4, 5)
LATER = NOW + timedelta(minutes=1)


def row(reason: str | None = "No image.", **more: Any) -> Row:
    return Row(**{"uuid": "u", "kind": Type.CONTAINER, "reason": reason, "changed": "then", "made": False, **more})


def failure(*steps: tuple[str, str | None, str | None], finished: datetime = NOW, kind: str = "create") -> Failure:
    return Failure(kind, finished, LATER, [Step(*step) for step in steps])


CANCELLED = ("ports", "cancelled", "cancelled")
IMAGE = ("image", "image-failed", "No image.")


@pytest.mark.parametrize(
    ("found", "reason", "code", "step"),
    [
        (failure(CANCELLED, IMAGE), "No image.", "image-failed", "image"),
        (failure(IMAGE, CANCELLED, ("release_ports", "node-error", "away")), "No image.", "image-failed", "image"),
        (failure(("volumes", "unavailable", "Away."), IMAGE), "No image.", "image-failed", "image"),  # two attempts
        (failure(("start", None, "No image.")), "No image.", "create-failed", "start"),  # before codes were kept
        (
            failure(("image", "unexpected", "Traceback: KeyError")),
            "The node failed unexpectedly.",
            "unexpected",
            "image",
        ),
        (failure(("schedule", "no-valid-host", "0 of 3")), "There are not enough hosts.", "no-valid-host", "schedule"),
        (failure(("image", None, None), finished=LATER), "No progress", "deadline-exceeded", "image"),
        (failure(finished=LATER), "No progress", "deadline-exceeded", None),
        (failure(kind="network_attach"), "Whatever", "network-attach-failed", None),
        (failure(IMAGE), None, "image-failed", "image"),
        (failure(IMAGE), "No such container: e in Docker", "container-lost", None),
        (failure(finished=LATER), "No such container: e in Docker", "container-lost", None),
        (failure(IMAGE), "Its network is gone.", "node-reported", None),
        (None, "Its network is gone.", "node-reported", None),
        (None, None, "node-reported", None),
    ],
)
def test_the_step_that_is_told(found: Failure | None, reason: str | None, code: str, step: str | None) -> None:
    fault = fault_of(row(reason), found, ())
    assert (fault.code, fault.step) == (code, step)
    assert fault.when == (found.finished if code not in ("node-reported", "container-lost") and found else "then")


def test_of_capsules_and_their_members() -> None:
    assert fault_of(row(kind=Type.CAPSULE), None, ()).code == "member-failed"
    member = fault_of(row(kind=Type.MEMBER, restart_at=NOW), None, ())
    assert (member.code, member.next) == (
        "process-failed",
        "It is started again at 2026-01-02 03:04:05 UTC, by its restart policy.",
    )


def test_next() -> None:
    def told(*unfinished: str, **more: Any) -> str:
        return fault_of(row(**more), None, unfinished).next

    assert told("release", "delete").startswith("It is deleted")
    assert told("release", "add_security_group") == "The add security group that was asked for is carried out."
    assert told("release").startswith("What it still holds is given back")
    assert told(made=True, auto_heal=True).endswith("should its engine lose it, it is made anew.")


def test_kinds_of_errors() -> None:
    assert _kind(ExceptionGroup("", [KeyError(), ExceptionGroup("", [ImagePullFailed("x")])])) == "image-pull-failed"
    assert _kind(ZunError()) == "zun-error"
    assert _kind(KeyError()) == "unexpected"
    assert _kind(ExceptionGroup("", [KeyError()])) == "unexpected"
