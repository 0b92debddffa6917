"""The fingerprint of what an engine is asked to make: equal wishes have one, on every runtime and ever. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any


def spec_hash(spec: Any) -> str:
    """40 hexadecimal digits over all fields of ``spec``, a dataclass; the order of mappings does not matter."""
    text = json.dumps(asdict(spec), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:40]
