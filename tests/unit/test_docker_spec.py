"""EngineSpec to Docker's create call."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.domain.observed import Attachment, EngineNetwork, EngineSpec, HealthCheck, HostMount
from zun.runtime import docker_spec
from zun.runtime.fingerprint import spec_hash

MIB = 1024 * 1024
PLAIN = EngineSpec("u", "d/h", "busybox", "web")
FOUR = EngineNetwork("net", "10.0.0.0/24", "10.0.0.1")
SIX = EngineNetwork("net", "fd00::/64", "fd00::1")


def attachment(network: EngineNetwork, address: str, *, version: int = 4, mac: str = "") -> Attachment:
    return Attachment("n", "p", "s", address, mac, version, False, network)


def test_plain_spec_leaves_out_what_was_not_asked() -> None:
    body = docker_spec.create_body(PLAIN)
    host = body["HostConfig"]
    for name in ("Cmd", "Entrypoint", "Hostname", "WorkingDir", "Healthcheck", "NetworkingConfig", "MacAddress"):
        assert name not in body
    for name in ("Memory", "MemorySwap", "CpuQuota", "CpuShares", "PidsLimit", "StorageOpt", "Runtime", "NanoCpus"):
        assert name not in host
    assert host["NetworkMode"] == "none"
    assert host["Privileged"] is False


def test_storage_option_only_with_a_disk() -> None:
    assert docker_spec.create_body(replace(PLAIN, disk_gib=3))["HostConfig"]["StorageOpt"] == {"size": "3G"}


@pytest.mark.parametrize(
    ("name", "count", "expected"),
    [("no", 5, 0), ("always", 5, 0), ("unless-stopped", 5, 0), ("on-failure", 5, 5)],
)
def test_restart_count_belongs_to_on_failure(name: str, count: int, expected: int) -> None:
    body = docker_spec.create_body(replace(PLAIN, restart_name=name, restart_count=count))
    assert body["HostConfig"]["RestartPolicy"] == {"Name": name, "MaximumRetryCount": expected}


@pytest.mark.parametrize(
    ("memory", "swap", "expected"),
    [
        (0, 0, {}),
        (0, -1, {}),
        (64, 0, {"Memory": 64 * MIB, "MemorySwap": 64 * MIB}),
        (64, 32, {"Memory": 64 * MIB, "MemorySwap": 96 * MIB}),
        (64, -1, {"Memory": 64 * MIB, "MemorySwap": -1}),
    ],
)
def test_swap_is_bounded(memory: int, swap: int, expected: dict[str, int]) -> None:
    assert docker_spec.memory_limits(memory, swap) == expected


@pytest.mark.parametrize(
    ("millicores", "quota", "shares"), [(0, -1, 1024), (1, 1000, 2), (100, 10_000, 102), (1000, 100_000, 1024)]
)
def test_cpu_is_a_limit_and_a_weight(millicores: int, quota: int, shares: int) -> None:
    assert docker_spec.cpu_limits(millicores) == {"CpuPeriod": 100_000, "CpuQuota": quota, "CpuShares": shares}


def test_healthcheck_is_a_shell_command_in_nanoseconds() -> None:
    body = docker_spec.create_body(replace(PLAIN, healthcheck=HealthCheck("true", timeout=2)))
    assert body["Healthcheck"] == {"Test": ["CMD-SHELL", "true"], "Timeout": 2_000_000_000}


def test_mounts_are_binds_that_need_their_source() -> None:
    body = docker_spec.create_body(replace(PLAIN, mounts=[HostMount("/a:b", "/c", True)]))
    assert body["HostConfig"]["Mounts"] == [{"Type": "bind", "Source": "/a:b", "Target": "/c", "ReadOnly": True}]


def test_both_versions_of_a_network_are_one_interface() -> None:
    both = [attachment(FOUR, "10.0.0.9", mac="02:00:00:00:00:01"), attachment(SIX, "fd00::9", version=6)]
    assert docker_spec.interfaces(both) == (
        docker_spec.Interface("net", "02:00:00:00:00:01", ipv4="10.0.0.9", ipv6="fd00::9"),
    )
    (network,) = docker_spec.wanted_networks(both)
    assert network.subnets == (("10.0.0.0/24", "10.0.0.1"), ("fd00::/64", "fd00::1"))
    assert network.ipv6
    body = docker_spec.create_body(replace(PLAIN, attachments=both))
    assert body["MacAddress"] == "02:00:00:00:00:01"
    assert body["NetworkingConfig"]["EndpointsConfig"]["net"]["IPAMConfig"] == {
        "IPv4Address": "10.0.0.9",
        "IPv6Address": "fd00::9",
    }


def test_first_network_is_the_mode_and_order_is_kept() -> None:
    other = EngineNetwork("other", "10.1.0.0/24")
    attachments = [attachment(other, "10.1.0.2"), attachment(FOUR, "10.0.0.2"), attachment(other, "10.1.0.3")]
    assert [row.network for row in docker_spec.interfaces(attachments)] == ["other", "net"]
    assert docker_spec.create_body(replace(PLAIN, attachments=attachments))["HostConfig"]["NetworkMode"] == "other"


def test_network_body_carries_label_options_and_gateway() -> None:
    body = docker_spec.network_body(docker_spec.wanted(replace(FOUR, options={"o": "1"})), "label")
    assert body["Labels"] == {"label": "net"}
    assert body["Options"] == {"o": "1"}
    assert body["IPAM"]["Config"] == [{"Subnet": "10.0.0.0/24", "Gateway": "10.0.0.1"}]
    assert (body["CheckDuplicate"], body["EnableIPv6"]) == (True, False)


@given(st.dictionaries(st.text(), st.text()))
def test_our_labels_always_win(labels: dict[str, str]) -> None:
    spec = replace(PLAIN, labels={**labels, "org.openstack.zun.spec": "evil"})
    found = docker_spec.create_body(spec)["Labels"]
    assert found["org.openstack.zun.uuid"] == "u"
    assert found["org.openstack.zun.owner"] == "d/h"
    assert found["org.openstack.zun.spec"] == spec_hash(spec)


@given(st.dictionaries(st.text(), st.text(), min_size=2))
def test_fingerprint_ignores_the_order_of_mappings_only(environment: dict[str, str]) -> None:
    turned = dict(reversed(environment.items()))
    assert spec_hash(replace(PLAIN, environment=environment)) == spec_hash(replace(PLAIN, environment=turned))
    assert spec_hash(replace(PLAIN, environment=environment)) != spec_hash(PLAIN)
    assert spec_hash(replace(PLAIN, command=["a", "b"])) != spec_hash(replace(PLAIN, command=["b", "a"]))
    assert spec_hash(replace(PLAIN, command=["a"])) == spec_hash(replace(PLAIN, command=("a",)))
