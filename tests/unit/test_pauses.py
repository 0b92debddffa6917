"""An engine that is away is tried less and less often, one that was well is tried soon."""

from __future__ import annotations

from zun.compute.pauses import LASTED, LONGEST, SHORTEST, Pauses


def test_pauses_grow_up_to_a_bound_and_begin_anew_after_a_stream_that_lasted() -> None:
    pauses = Pauses()
    waited = [pauses.after(0.01) for _ in range(12)]
    for number, pause in enumerate(waited):
        about = min(SHORTEST * 2**number, LONGEST)
        assert 0.75 * about <= pause <= 1.25 * about
    assert pauses.after(LASTED * 2) <= 1.25 * SHORTEST
    assert pauses.after(0.01) <= 2 * 1.25 * SHORTEST
