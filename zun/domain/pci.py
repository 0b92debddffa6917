"""PCI devices that a request names: ``[pci]/alias`` and the hints ``pci:<alias>``. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PREFIX = "pci:"
_MEMBERS = ("name", "vendor_id", "product_id", "device_type")
_TYPES = ("type-PCI", "type-PF", "type-VF")
_MOST = 32


@dataclass(frozen=True, slots=True)
class Alias:
    """A kind of device under an operator's name; None: any."""

    name: str
    vendor_id: str | None = None
    product_id: str | None = None
    device_type: str | None = None


def parse_aliases(texts: Sequence[str]) -> dict[str, Alias]:
    """By name. Raises ValueError naming what is wrong."""
    found: dict[str, Alias] = {}
    for text in texts:
        members = _object(text, "alias")
        unknown = set(members) - set(_MEMBERS)
        if unknown or not all(isinstance(value, str) and value for value in members.values()):
            raise ValueError(f"alias '{text}' may have {', '.join(_MEMBERS)}, each a text")
        if "name" not in members:
            raise ValueError(f"alias '{text}' has no name")
        if members.get("device_type", _TYPES[0]) not in _TYPES:
            raise ValueError(f"device_type of alias '{members['name']}' may be {', '.join(_TYPES)}")
        found[members["name"]] = Alias(**members)
    return found


def parse_whitelist(texts: Sequence[str]) -> list[Mapping[str, Any]]:
    """Descriptions of devices. Raises ValueError."""
    return [_object(text, "passthrough_whitelist") for text in texts]


def requested(hints: Mapping[str, Any] | None) -> dict[str, int]:
    """alias -> devices asked for. Raises ValueError for a number that is none."""
    found = {}
    for name, value in (hints or {}).items():
        if not name.startswith(PREFIX):
            continue
        count = str(value)
        if not count.isascii() or not count.isdecimal() or not 1 <= int(count[:4]) <= _MOST or len(count) > 4:
            raise ValueError(f"The hint {name[:64]} takes a number from 1 to {_MOST}.")
        found[name[len(PREFIX) :]] = int(count)
    return found


def _object(text: str, option: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ValueError(f"{option} '{text}' is no JSON object")
    return value
