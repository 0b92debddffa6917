"""Statuses: what permits what, and what engine facts mean (states.md)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.domain import lifecycle
from zun.domain.errors import InvalidStateException, slug_of
from zun.domain.lifecycle import ALLOWED, Status, read_engine, render_detail, require
from zun.domain.observed import Observed

NOW = datetime(2026, 1, 2, 3, 4, 5)
EPOCH = NOW.replace(tzinfo=UTC).timestamp()


def observed(state: str, **facts: object) -> Observed:
    return Observed(uuid="u", engine_id="e" * 64, state=state, **facts)  # type: ignore[arg-type]


def test_the_refusal_names_operation_container_and_status() -> None:
    with pytest.raises(InvalidStateException) as refused:
        require("start", "abc", "Running")
    assert refused.value.message == "Cannot start container abc in Running state"
    assert (refused.value.status, refused.value.slug) == (409, "invalid-state-exception")


@pytest.mark.parametrize(
    ("operation", "statuses"),
    [
        ("start", {"Error", "Stopped", "Created"}),
        ("stop", {"Running"}),
        ("delete", {"Error", "Stopped", "Created", "Deleted", "Dead"}),
        ("delete_after_stop", {"Error", "Running", "Stopped", "Created", "Deleted", "Dead"}),
        ("delete_force", {str(s) for s in Status} - {"Paused"}),
        ("logs", {"Error", "Running", "Stopped", "Paused", "Unknown", "Created"}),
        ("rebuild", {"Error", "Running", "Stopped", "Created"}),
        ("unpause", {"Paused"}),
        ("update", {"Running", "Stopped", "Paused", "Created"}),
    ],
)
def test_operations_are_permitted_in_exactly_the_contracts_statuses(operation: str, statuses: set[str]) -> None:
    assert {str(status) for status in ALLOWED[operation]} == statuses


@pytest.mark.parametrize(
    ("facts", "current", "status", "detail"),
    [
        (observed("running", started_at=NOW - timedelta(minutes=5)), "Creating", "Running", "Up 5 mins"),
        (observed("running", started_at=NOW), "Creating", "Running", None),
        (observed("paused", started_at=NOW - timedelta(hours=2)), "Running", "Paused", "Up 2 hours (paused)"),
        (observed("restarting", started_at=NOW, finished_at=NOW), "Running", "Restarting", "Restarting"),
        (observed("dead"), "Running", "Dead", "Dead"),
        (observed("created"), "Creating", "Created", "Created"),
        (observed("created"), "Error", "Error", None),
        (observed("created"), "Rebuilding", "Rebuilding", None),
        (
            observed("exited", exit_code=3, started_at=NOW, finished_at=NOW - timedelta(days=4)),
            "Running", "Stopped", "Exited(3) 4 days ago ",
        ),
        (
            observed("exited", exit_code=127, error="x", started_at=NOW, finished_at=NOW - timedelta(seconds=9)),
            "Running", "Stopped", "Exited(127) 9 seconds ago (error)",
        ),
        (observed("exited", started_at=NOW), "Running", "Unknown", ""),
    ],
)  # fmt: skip
def test_engine_facts_become_status_and_detail(facts: Observed, current: str, status: str, detail: str | None) -> None:
    reading = read_engine(facts, current)
    assert reading.status == status
    assert render_detail(reading.detail, EPOCH) == detail


def test_passing_time_does_not_change_what_is_stored() -> None:
    facts = observed("running", started_at=NOW)
    stored = read_engine(facts, "Running").detail
    assert render_detail(stored, EPOCH + 59) == "Up 59 seconds"
    assert render_detail(stored, EPOCH + 7200) == "Up 2 hours"


@given(
    state=st.sampled_from(["created", "running", "paused", "restarting", "removing", "exited", "dead", "odd"]),
    started=st.booleans(), finished=st.booleans(), error=st.sampled_from(["", "boom %d %s"]),
    current=st.sampled_from([str(s) for s in Status]),
)  # fmt: skip
def test_every_combination_of_facts_has_a_known_status(
    state: str, started: bool, finished: bool, error: str, current: str
) -> None:
    facts = observed(
        state, error=error, exit_code=0, started_at=NOW if started else None, finished_at=NOW if finished else None
    )
    assert read_engine(facts, current).status in {str(s) for s in Status}


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("OverQuota", "over-quota"),
        ("Base64Exception", "base-64-exception"),
        ("InvalidParamInVersion", "invalid-param-in-version"),
    ],
)  # fmt: skip
def test_error_codes_are_the_class_names_words(name: str, slug: str) -> None:
    assert slug_of(name) == slug


def test_age_is_told_in_its_largest_unit() -> None:
    assert [lifecycle.age_text(s) for s in (0.5, 1, 61, 3601, 86401)] == [
        None, "1 seconds", "1 mins", "1 hours", "1 days",
    ]  # fmt: skip
