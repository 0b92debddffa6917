"""Every route of the contract on a container in each of the twelve statuses, and while its node is down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.test_walk_versions import NOT_EMBEDDED, asker
from tests.support.walk import ASKED, Contract, World, error

pytestmark = pytest.mark.xdist_group("walk")

STATUSES = ("Error", "Running", "Stopped", "Paused", "Unknown", "Creating", "Created", "Deleted", "Deleting",
            "Rebuilding", "Dead", "Restarting")  # fmt: skip
OF_CONTAINERS = [row for row in ASKED if "{container_ident}" in row.path]
GOING = {"Deleted", "Deleting"}
STRICTER: dict[str, set[str]] = {"container.network_attach": GOING, "container.network_detach": GOING}
"""The contract names no status for these; a container that is being deleted is told so, where the original loses the
request."""
LAXER: dict[str, set[str]] = {"container.delete": {"Creating"}, "container.delete_after_stop": {"Creating"}}
"""A container that nobody makes any more can be given up by its owner (S1.26)."""


@pytest.mark.parametrize("row", OF_CONTAINERS, ids=lambda row: row.name)
def test_each_status(world: World, row: Contract) -> None:
    assert row.versions
    for status in STATUSES:
        permitted = row.statuses or set(STATUSES) - STRICTER.get(row.operation, set())
        refused = status not in permitted | LAXER.get(row.operation, set())
        targets = world.targets(row, status=status)
        answer = world.ask(row, row.versions[1], asker(world, row), targets=targets)
        if refused:
            operation = row.operation.removeprefix("container.")
            uuid = targets["container_ident"]
            title = f"Cannot {operation} container {uuid} in {status} state"
            assert error(answer) == (409, "invalid-state-exception", title)
        elif row.operation in NOT_EMBEDDED:
            assert error(answer)[:2] == NOT_EMBEDDED[row.operation], (status, answer.text)
        else:
            assert answer.status_code == row.success, (status, answer.text)


@pytest.fixture
def node_down(world: World) -> Iterator[None]:
    """The operator says so."""
    node = {"host": world.host["hostname"], "binary": "zun-compute"}

    def force(down: bool) -> None:
        answer = world.send("PUT", "/v1/services/force_down", world.admin, json={**node, "forced_down": down})
        assert answer.status_code == 200, answer.text

    force(True)
    yield
    force(False)


def test_a_node_that_is_down(world: World, node_down: None) -> None:
    """What needs it is refused in one sentence; nothing is queued for it and lost; what is stored is shown."""
    for row in OF_CONTAINERS:
        assert row.versions
        answer = world.ask(row, row.versions[1], asker(world, row))
        if row.operation == "container.commit":  # refused before the node is looked for
            assert error(answer)[:2] == NOT_EMBEDDED[row.operation]
        elif row.host_up is True or row.success == 202 or row.operation == "container.network_attach":
            assert error(answer)[:2] == (409, "container-host-not-up"), (row.name, answer.text)
        else:
            assert answer.status_code == row.success, (row.name, answer.text)
    update = next(row for row in OF_CONTAINERS if row.operation == "container.update")
    answer = world.ask(update, 40, world.member, body={"cpu": 0.3})
    assert error(answer)[:2] == (409, "container-host-not-up")


def test_operations_of_the_contract_are_those_of_its_table_of_statuses() -> None:
    """A row without statuses is one that checks none, not one that was forgotten."""
    free = {row.operation for row in OF_CONTAINERS if row.statuses is None}
    assert free == {
        "container.show", "container.rename", "container.network_attach", "container.network_detach",
        "container.network_list", "container_action.list", "container_action.show",
    }  # fmt: skip
    assert {status for row in ASKED for status in row.statuses or ()} == set(STATUSES)
