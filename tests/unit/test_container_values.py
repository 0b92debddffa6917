"""Values of a create request in normal form."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.control import container_names, container_values
from zun.control.container_networks import by_port
from zun.control.containers_queries import stats_of
from zun.domain.errors import InvalidValue


def test_names_are_greek() -> None:
    for _ in range(50):
        assert re.fullmatch(r"[a-z]+-([1-9]|1\d|2[0-4])-container", container_names.generate())


@pytest.mark.parametrize(
    ("asked", "stored"),
    [
        (None, None),
        ({"Name": "no", "MaximumRetryCount": 5}, {"Name": "no", "MaximumRetryCount": "0"}),
        ({"Name": "on-failure", "MaximumRetryCount": "3"}, {"Name": "on-failure", "MaximumRetryCount": "3"}),
        ({"Name": "always", "MaximumRetryCount": None}, {"Name": "always", "MaximumRetryCount": "0"}),
        ({"Name": "unless-stopped"}, {"Name": "unless-stopped", "MaximumRetryCount": "0"}),
    ],
)
def test_restart_policy(asked: dict[str, object] | None, stored: dict[str, str] | None) -> None:
    assert container_values.restart_policy(asked, auto_remove=False) == stored


def test_auto_remove_goes_with_no_restart_only() -> None:
    assert container_values.restart_policy({"Name": "no"}, auto_remove=True) is not None
    with pytest.raises(InvalidValue):
        container_values.restart_policy({"Name": "on-failure"}, auto_remove=True)


def test_healthcheck_renames_cmd_and_makes_numbers_whole() -> None:
    asked = {"cmd": "ls", "interval": "3", "retries": 2, "timeout": 60}
    assert container_values.healthcheck(asked) == {"interval": 3, "retries": 2, "timeout": 60, "test": "ls"}
    assert container_values.healthcheck({}) == {}


def test_exposed_ports_get_their_protocol() -> None:
    asked: dict[str, object] = {"80": {}, "53/udp": {}, "0443/tcp": {}}
    assert container_values.exposed_ports(asked) == {"80/tcp": {}, "53/udp": {}, "443/tcp": {}}


@given(st.text(max_size=40))
def test_any_command_text_is_words_or_a_clear_refusal(text: str) -> None:
    try:
        words = container_values.split_command(text)
    except InvalidValue:
        assert set(text) & {'"', "'", "\\"}, "only open quotes and escapes cannot be split"
    else:
        assert all(isinstance(word, str) for word in words)


@given(st.dictionaries(st.text(max_size=8), st.one_of(st.none(), st.integers(), st.text(max_size=8), st.booleans())))
def test_any_healthcheck_is_stored_whole_or_refused(asked: dict[str, object]) -> None:
    try:
        stored = container_values.healthcheck(asked)
    except InvalidValue:
        return
    assert stored is not None
    assert all(isinstance(value, int) and value >= 0 for name, value in stored.items() if name != "test")


def test_stats_without_a_limit_are_zero_percent() -> None:
    raw = {
        "cpu_percent": 0, "memory_usage_mib": 5, "memory_limit_mib": 0, "block_read": 0, "block_write": 0,
        "net_rx": 0, "net_tx": 0,
    }  # fmt: skip
    assert stats_of("c", raw)["MEM %"] == 0.0


def test_no_addresses_are_no_networks() -> None:
    assert by_port(None) == []
