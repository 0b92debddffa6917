"""Neutron's L2 agent does not work: a capsule's port never becomes ACTIVE, and that is told (S2.16, S2.17)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.support.capsule_node import PATIENCE, CapsuleNode
from tests.support.namespaces import devices, ovs_ports
from tests.support.testbed import Testbed
from tests.support.wait import wait_until

pytestmark = [
    pytest.mark.testbed_alone,
    pytest.mark.xdist_group("shared-networks"),  # beside tempest, which is long to wait for
    pytest.mark.timeout(600),
]

AGENT = "neutron-ovs-agent"


@contextmanager
def hung(testbed: Testbed) -> Iterator[None]:
    """For the block. What it started, and would start anew only half a minute after a failure, goes on."""
    agent = testbed.pid(AGENT)
    os.kill(agent, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(agent, signal.SIGCONT)


@contextmanager
def ended(testbed: Testbed) -> Iterator[None]:
    """For the block; a new one is at work afterwards."""
    before = testbed.l2_agent()["started_at"]
    testbed.end(AGENT)
    try:
        yield
    finally:
        testbed.bring_back()
        wait_until(lambda: testbed.l2_agent()["started_at"] != before, 90, "the agent has told Neutron of its start")


@pytest.mark.parametrize("stopped", [hung, ended])
def test_s2_16_without_the_l2_agent_a_capsule_ends_in_error_naming_port_and_seconds_and_leaves_nothing(
    rig: CapsuleNode, stopped: Callable[[Testbed], Iterator[None]]
) -> None:
    testbed = rig.testbed
    with stopped(testbed):
        uuid = rig.create()
        wait_until(lambda: testbed.ports(device_id=uuid), 60, f"it has a port:\n{rig.product.tail()}")
        [port] = testbed.ports(device_id=uuid)
        shown = rig.wait(uuid, "Error")
        wanted = f"Port {port['id']} did not become ACTIVE in Neutron within {PATIENCE} seconds"
        assert wanted in shown["status_reason"]
        rig.product.check_no_leak(uuid)
        wait_until(lambda: not rig.containerd.leftovers(), 20, f"no sandbox is left: {rig.containerd.leftovers()}")
        assert f"tap{port['id'][:11]}" not in devices() | set(ovs_ports("br-int"))
    rig.delete(uuid)
    again = rig.create()
    rig.wait(again, "Running")
    assert [one["status"] for one in testbed.ports(device_id=again)] == ["ACTIVE"]
    rig.delete(again)
