"""Which statuses may still come about by themselves."""

from __future__ import annotations

from datetime import datetime

import pytest

from zun.domain.awaited import Seen, can_become, over
from zun.domain.lifecycle import Status, Task


@pytest.mark.parametrize("wanted", list(Status))
@pytest.mark.parametrize("status", list(Status))
def test_an_operation_at_work_may_lead_anywhere(status: Status, wanted: Status) -> None:
    for task in Task:
        removing = task == Task.DELETING or status in (Status.DELETING, Status.DELETED)
        expected = not removing or wanted in (Status.DELETING, Status.DELETED, Status.ERROR)
        assert can_become(Seen(status, task), wanted) is expected


@pytest.mark.parametrize(
    ("status", "wanted", "can"),
    [
        ("Running", "Stopped", True),
        ("Running", "Error", True),
        ("Running", "Paused", False),
        ("Running", "Deleted", False),
        ("Paused", "Stopped", True),
        ("Stopped", "Running", False),
        ("Created", "Running", False),
        ("Error", "Running", False),
        ("Error", "Deleted", False),
        ("Dead", "Running", False),
        ("Unknown", "Running", True),
        ("Creating", "Running", True),
        ("Restarting", "Running", True),
    ],
)
def test_at_rest(status: str, wanted: str, can: bool) -> None:
    assert can_become(Seen(status), wanted) is can


def test_what_removes_or_restarts_itself() -> None:
    assert can_become(Seen("Running", auto_remove=True), "Deleted")
    assert can_become(Seen("Stopped", restart_at=datetime(2026, 1, 1)), "Running")
    assert not can_become(Seen("Error", auto_remove=True), "Deleted")


def test_over() -> None:
    assert over(None, "Running")
    assert over(Seen("Running"), "Running")
    assert over(Seen("Error"), "Running")
    assert not over(Seen("Creating", Task.CREATING), "Running")
