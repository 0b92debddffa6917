"""Filters and weights on plain facts (S6.5, S6.7)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.domain.resources import MEMORY_MB, VCPU, Amounts
from zun.scheduler.filters import FILTERS, Host, UnknownFilter, Wanted, enabled, passing
from zun.scheduler.weights import best_first, free_fraction

HOST = Host(
    "node1", "p1", zone="nova", disabled=False, up=True, cpus=4, cpu_used=2.0, mem_total=1000, mem_used=500,
    disk_total=100, disk_used=50, disk_quota_supported=True, labels={"ssd": "yes"}, runtimes=["runc", "kata"],
    used={VCPU: 2, MEMORY_MB: 500}, capacity={VCPU: 4, MEMORY_MB: 1000},
)  # fmt: skip
WANTED = Wanted("c1", "proj1", "user1", Amounts(1.0, 256, 0))


@pytest.mark.parametrize(
    ("name", "host", "wanted", "fits"),
    [
        ("AvailabilityZoneFilter", {}, {}, True),
        ("AvailabilityZoneFilter", {}, {"zone": "nova"}, True),
        ("AvailabilityZoneFilter", {}, {"zone": "other"}, False),
        ("ComputeFilter", {}, {}, True),
        ("ComputeFilter", {"disabled": True}, {}, False),
        ("ComputeFilter", {"up": False}, {}, False),
        ("RuntimeFilter", {}, {"runtime": "kata"}, True),
        ("RuntimeFilter", {}, {"runtime": "gvisor"}, False),
        ("RuntimeFilter", {"runtimes": []}, {}, True),
        ("CPUFilter", {}, {"amounts": Amounts(2.0, 0, 0)}, True),
        ("CPUFilter", {}, {"amounts": Amounts(2.1, 0, 0)}, False),
        ("RamFilter", {}, {"amounts": Amounts(0, 500, 0)}, True),
        ("RamFilter", {}, {"amounts": Amounts(0, 501, 0)}, False),
        ("DiskFilter", {}, {"amounts": Amounts(0, 0, 50)}, True),
        ("DiskFilter", {}, {"amounts": Amounts(0, 0, 51)}, False),
        ("DiskFilter", {"disk_quota_supported": False}, {"amounts": Amounts(0, 0, 1)}, False),
        ("DiskFilter", {"disk_quota_supported": False}, {}, True),
        ("LabelFilter", {}, {"hints": {"label:ssd": "yes", "other": "x"}}, True),
        ("LabelFilter", {}, {"hints": {"label:ssd": "no"}}, False),
        ("LabelFilter", {}, {"hints": {"label:gpu": "yes"}}, False),
        ("DiskPressureFilter", {}, {}, True),
        ("DiskPressureFilter", {"disk_pressure": True}, {}, False),
        ("CpuSetFilter", {}, {}, True),
        ("CpuSetFilter", {}, {"cpu_policy": "dedicated"}, False),
        ("CpuSetFilter", {"free_cpus": 1}, {"cpu_policy": "dedicated"}, True),
    ],
)
def test_filter(name: str, host: dict[str, object], wanted: dict[str, object], fits: bool) -> None:
    assert FILTERS[name](replace(HOST, **host), replace(WANTED, **wanted)) is fits  # type: ignore[arg-type]


def test_unknown_filter_is_a_clear_configuration_error() -> None:
    with pytest.raises(UnknownFilter, match=r"enabled_filters: unknown filter NoFilter; known are Availability"):
        enabled(["ComputeFilter", "NoFilter"])


def test_rejections_are_counted_by_the_first_filter_that_says_no() -> None:
    """S1.25."""
    hosts = [HOST, replace(HOST, hostname="n2", up=False, zone="x"), replace(HOST, hostname="n3", disabled=True)]
    left, rejected = passing(
        hosts, replace(WANTED, zone="nova"), enabled(["AvailabilityZoneFilter", "ComputeFilter", "RuntimeFilter"])
    )
    assert [host.hostname for host in left] == ["node1"]
    assert rejected == {"AvailabilityZoneFilter": 1, "ComputeFilter": 1}


def test_most_free_by_fraction_wins_not_most_free_absolutely() -> None:
    big = replace(HOST, hostname="big", capacity={VCPU: 100, MEMORY_MB: 100}, used={VCPU: 60, MEMORY_MB: 60})
    small = replace(HOST, hostname="small", capacity={VCPU: 10, MEMORY_MB: 10}, used={VCPU: 1, MEMORY_MB: 1})
    assert [host.hostname for host in best_first([big, small], {VCPU: 1, MEMORY_MB: 1})] == ["small", "big"]


@given(st.lists(st.tuples(st.integers(1, 64), st.integers(0, 64)), min_size=1, max_size=8), st.randoms())
def test_order_depends_on_facts_only(facts: list[tuple[int, int]], random: object) -> None:
    hosts = [
        replace(HOST, hostname=f"n{i}", capacity={VCPU: total}, used={VCPU: min(used, total)})
        for i, (total, used) in enumerate(facts)
    ]
    shuffled = list(hosts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    ordered = best_first(shuffled, {VCPU: 1})
    assert ordered == best_first(hosts, {VCPU: 1})
    shares = [free_fraction(host, {VCPU: 1}) for host in ordered]
    assert shares == sorted(shares, reverse=True)
