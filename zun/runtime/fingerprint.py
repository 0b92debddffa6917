"""The fingerprint of an EngineSpec: equal wishes have the same one, on every runtime, after every restart. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from zun.domain.observed import EngineSpec


def spec_hash(spec: EngineSpec) -> str:
    """40 hexadecimal digits over all fields of ``spec``; the order of mappings does not matter."""
    text = json.dumps(asdict(spec), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:40]
