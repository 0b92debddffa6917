"""The keys that let go of an attached terminal, however they come."""

from __future__ import annotations

import pytest

from zun.runtime.detach import DetachKeys


@pytest.mark.parametrize(
    ("typed", "passed", "gone"),
    [
        ([b"a", b"\x10\x11"], b"a", True),
        ([b"a\x10", b"\x11b"], b"a", True),
        ([b"\x10\x10\x11"], b"\x10", True),
        ([b"\x10", b"b"], b"\x10b", False),
        ([b"\x11\x10", b"\x10b"], b"\x11\x10\x10b", False),
        ([b"ls\x10"], b"ls", False),
        ([b"", b"\x11"], b"\x11", False),
    ],
)
def test_keys(typed: list[bytes], passed: bytes, gone: bool) -> None:
    keys = DetachKeys()
    found = [keys.pass_on(data) for data in typed]
    assert b"".join(data for data, _ in found) == passed
    assert found[-1][1] is gone
