"""What a look at a capsule means, as a table: rows and the engine's facts in, columns and starts out."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from zun.compute.capsules.compare import differing
from zun.compute.capsules.plan import ALL_ENDED, Plan, decide
from zun.domain.container import Container, Type
from zun.domain.lifecycle import Status
from zun.domain.observed import Observed
from zun.runtime.pods import Sandbox

NOW = datetime(2026, 1, 2, 3, 4, 5)
BEFORE = NOW - timedelta(seconds=30)
READY = Sandbox("c", "box", True)


def row(uuid: str, policy: str = "always", **more: Any) -> Container:
    values: dict[str, Any] = {
        "name": uuid, "project_id": "p", "user_id": "u", "image": "i", "image_driver": "", "status": Status.RUNNING,
        "container_id": f"engine-{uuid}", "container_type": Type.MEMBER, "capsule_uuid": "c", "command": ["x"],
        "restart_policy": {"Name": policy, "MaximumRetryCount": "0"}, "ports": [], "hostname": "h",
    }  # fmt: skip
    return Container(uuid, **(values | more))


def capsule(policy: str = "always", **more: Any) -> Container:
    return row("c", policy, container_type=Type.CAPSULE, container_id="box", capsule_uuid=None, **more)


def seen(uuid: str, state: str, **more: Any) -> Observed:
    times: dict[str, Any] = {"started_at": BEFORE}
    if state == "exited":
        times |= {"finished_at": NOW - timedelta(seconds=1), "exit_code": 0}
    return Observed(uuid, f"engine-{uuid}", state, **(times | more))


def plan(of: Container, members: list[Container], facts: list[Observed], box: Sandbox | None = READY) -> Plan:
    found: dict[str, Observed | None] = {one.uuid: None for one in members}
    return decide(of, members, box, found | {one.uuid: one for one in facts}, engine="cri", now=NOW)


def test_a_running_capsule_is_left_alone_but_for_details() -> None:
    done = plan(capsule(), [row("a")], [seen("a", "running")])
    assert (done.capsule, done.due, done.next_at, done.heal) == ({}, [], None, False)
    assert "status" not in done.members["a"]


def test_the_first_end_is_followed_by_a_start_at_once() -> None:
    done = plan(capsule(), [row("a")], [seen("a", "exited", exit_code=1)])
    assert done.due == ["a"]
    assert done.capsule == {}
    wanted = {"status": Status.STOPPED, "restarts": 1, "restart_at": NOW, "exit_code": 1}
    assert wanted.items() <= done.members["a"].items()


def test_one_that_its_engine_has_lost_hold_of_is_to_be_stopped() -> None:
    done = plan(capsule(), [row("a"), row("b")], [seen("a", "unknown"), seen("b", "running")])
    assert done.adrift == ["a"]
    assert done.members["a"]["status"] == Status.UNKNOWN
    assert (done.capsule, done.due, done.heal) == ({}, [], False)


def test_a_later_end_waits() -> None:
    done = plan(capsule(), [row("a", restarts=2, back_off=10)], [seen("a", "exited", exit_code=1, attempt=2)])
    at = NOW + timedelta(seconds=20)
    assert (done.due, done.next_at) == ([], at)
    values = done.members["a"]
    assert (values["restarts"], values["back_off"], values["restart_at"]) == (3, 20, at)
    assert "Start 3 by its restart policy" in values["status_reason"]


def test_an_end_that_was_decided_is_not_decided_again() -> None:
    at = NOW + timedelta(seconds=5)
    waiting = row("a", status=Status.STOPPED, restarts=3, restart_at=at)
    done = plan(capsule(), [waiting], [seen("a", "exited", exit_code=1, attempt=2)])
    assert (done.members, done.due, done.next_at) == ({}, [], at)


def test_what_is_due_is_started_also_by_an_agent_that_came_later() -> None:
    waiting = row("a", status=Status.STOPPED, restarts=3, restart_at=BEFORE)
    assert plan(capsule(), [waiting], [seen("a", "exited", attempt=2)]).due == ["a"]
    assert plan(capsule(), [waiting], []).due == ["a"]  # its former container is removed already


def test_all_ended_well_is_stopped() -> None:
    members = [row("a", "on-failure"), row("b", "on-failure")]
    done = plan(capsule("on-failure"), members, [seen("a", "exited"), seen("b", "exited")])
    assert done.capsule == {"status": Status.STOPPED, "status_reason": ALL_ENDED}


def test_all_ended_and_one_failed_is_error_naming_it() -> None:
    members = [row("a", "no"), row("b", "no")]
    done = plan(capsule("no"), members, [seen("a", "exited"), seen("b", "exited", exit_code=9)])
    assert done.capsule == {"status": Status.ERROR, "status_reason": "Container b ended: exit code 9"}


def test_one_that_still_runs_keeps_the_capsule_running() -> None:
    members = [row("a", "no"), row("b", "no")]
    assert plan(capsule("no"), members, [seen("a", "exited", exit_code=9), seen("b", "running")]).capsule == {}


def test_a_member_that_vanished_is_made_again_or_told() -> None:
    again = plan(capsule(), [row("a")], [])
    assert again.due == ["a"]
    assert again.members["a"]["status"] == Status.STOPPED
    never = plan(capsule("no"), [row("a", "no")], [])
    assert never.members["a"]["status_reason"] == "No such container: engine-a in cri"
    assert never.capsule["status"] == Status.ERROR


def test_a_member_that_was_made_and_not_started_is_started() -> None:
    assert plan(capsule(), [row("a", restarts=1)], [seen("a", "created", started_at=None, attempt=1)]).due == ["a"]


def test_what_ended_for_lack_of_memory_says_so_and_when_it_starts_again() -> None:
    done = plan(capsule(), [row("a")], [seen("a", "exited", exit_code=137, oom_killed=True)])
    told = done.members["a"]["status_reason"]
    assert told.startswith("The container was ended because it ran out of memory. Start 1 by its restart policy")


def test_init_containers_are_not_looked_at() -> None:
    init = row("i", "on-failure", container_type=Type.INIT, status=Status.STOPPED)
    assert "i" not in plan(capsule(), [init, row("a")], [seen("a", "running")]).members


def test_without_its_sandbox_a_capsule_is_healed_or_told() -> None:
    for box in (None, replace(READY, ready=False)):
        assert plan(capsule(), [row("a")], [], box).heal
        told = plan(capsule("on-failure"), [row("a", "on-failure")], [], box)
        assert not told.heal
        assert told.capsule["status"] == Status.ERROR
        assert "sandbox of the capsule is gone" in told.capsule["status_reason"]


def test_a_comparison_looks_only_at_what_differs() -> None:
    rows, inside = [capsule("no")], {"c": [row("a", "no")]}
    assert differing(rows, inside, {"c": READY}, {"a": seen("a", "running")}) == []
    assert differing(rows, inside, {"c": READY}, {"a": seen("a", "exited")}) == ["c"]
    assert differing(rows, inside, {"c": READY}, {}) == ["c"]
    assert differing(rows, inside, {}, {}) == ["c"]
    told = [replace(rows[0], status=Status.ERROR)]
    assert differing(told, inside, {}, {}) == []
    at_work = [replace(rows[0], task_state="container_creating")]
    assert differing(at_work, inside, {}, {}) == []
    waits = {"c": [row("a", "no", restarts=1)]}
    assert differing(rows, waits, {"c": READY}, {"a": seen("a", "running")}) == ["c"]
