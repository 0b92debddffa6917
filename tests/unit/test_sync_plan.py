"""The sync's decision, apart from its acting: which containers to look at, which are orphans, which are foreign."""

from __future__ import annotations

from dataclasses import replace

from zun.compute.sync import plan
from zun.domain.container import Container
from zun.domain.observed import Observed

OWNER = "deployment/host"
ROW = Container(
    uuid="a", name="a", project_id="p", user_id="u", image="i", image_driver="docker", status="Running",
    host="host", container_id="engine-id",
)  # fmt: skip


def engine(uuid: str, state: str = "running", owner: str = OWNER) -> Observed:
    return Observed(uuid=uuid, engine_id="engine-id", state=state, owner=owner)


def test_agreement_needs_no_look() -> None:
    assert plan([ROW], [engine("a")], OWNER) == plan([], [], OWNER)


def test_a_differing_or_vanished_container_is_looked_at() -> None:
    assert plan([ROW], [engine("a", "exited")], OWNER).look == ["a"]
    assert plan([ROW], [], OWNER).look == ["a"]


def test_rows_with_a_task_and_rows_never_made_are_left_alone() -> None:
    rows = [replace(ROW, task_state="container_stopping"), replace(ROW, uuid="b", container_id=None)]
    assert plan(rows, [], OWNER).look == []


def test_ours_without_a_row_is_an_orphan_and_others_are_never_touched() -> None:
    found = plan([], [engine("mine"), engine("theirs", owner="other/host"), engine("unmarked", owner="")], OWNER)
    assert found.orphans == ["mine"]


def test_a_row_whose_engine_container_carries_another_mark_is_reported_not_read() -> None:
    found = plan([ROW], [engine("a", "exited", owner="other/host")], OWNER)
    assert (found.foreign, found.look, found.orphans) == (["a"], [], [])
