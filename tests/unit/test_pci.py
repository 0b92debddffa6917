"""PCI devices in options and hints."""

from __future__ import annotations

from typing import Any

import pytest

from zun.domain.pci import Alias, parse_aliases, parse_whitelist, requested


def test_aliases_are_read() -> None:
    texts = ['{"name": "gpu", "vendor_id": "10de"}', '{"name": "nic", "device_type": "type-VF"}']
    assert parse_aliases(texts) == {"gpu": Alias("gpu", "10de"), "nic": Alias("nic", device_type="type-VF")}


@pytest.mark.parametrize(
    "text",
    ["x", "[]", '{"vendor_id": "1"}', '{"name": 1}', '{"name": "a", "x": "y"}', '{"name": "a", "device_type": "b"}'],
)
def test_a_wrong_alias_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="alias"):
        parse_aliases([text])


def test_a_wrong_whitelist_is_refused() -> None:
    assert parse_whitelist(['{"address": "0000:81:00.0"}']) == [{"address": "0000:81:00.0"}]
    with pytest.raises(ValueError, match="passthrough_whitelist"):
        parse_whitelist(["0000:81:00.0"])


def test_hints_ask_for_devices() -> None:
    assert requested(None) == {}
    assert requested({"label:ssd": "yes", "pci:gpu": 2, "pci:nic": "1"}) == {"gpu": 2, "nic": 1}


@pytest.mark.parametrize("count", [0, "", "x", None, -1, 1.5, True, [], 33, "9" * 5000, "²"])
def test_a_number_of_devices_that_is_none_is_refused(count: Any) -> None:
    with pytest.raises(ValueError, match="pci:gpu"):
        requested({"pci:gpu": count})
