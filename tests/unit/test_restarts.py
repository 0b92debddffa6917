"""When a member is started again: policies and the back-off of kubelet."""

from __future__ import annotations

import pytest

from zun.domain.restarts import after_end

ALWAYS = {"Name": "always", "MaximumRetryCount": "0"}
FAILURE = {"Name": "on-failure", "MaximumRetryCount": "0"}
TEN = {"Name": "on-failure", "MaximumRetryCount": "10"}
NEVER = {"Name": "no", "MaximumRetryCount": "0"}


@pytest.mark.parametrize(
    ("policy", "exit_code", "restarts", "again"),
    [
        (ALWAYS, 0, 0, True),
        (ALWAYS, 1, 99, True),
        (ALWAYS, None, 5, True),
        (FAILURE, 0, 0, False),
        (FAILURE, 1, 0, True),
        (FAILURE, 1, 1000, True),
        (FAILURE, None, 0, True),
        (TEN, 1, 9, True),
        (TEN, 1, 10, False),
        (NEVER, 1, 0, False),
        (NEVER, 0, 0, False),
        (None, 1, 0, False),
        ({}, 1, 0, False),
    ],
)
def test_policies(policy: dict[str, str] | None, exit_code: int | None, restarts: int, again: bool) -> None:
    found = after_end(policy, exit_code=exit_code, restarts=restarts, back_off=0, ran=1.0)
    assert (found is not None) is again


def test_waits_double_up_to_five_minutes() -> None:
    waits, back_off = [], 0
    for restarts in range(9):
        wait = after_end(ALWAYS, exit_code=1, restarts=restarts, back_off=back_off, ran=1.0)
        assert wait is not None
        waits.append(wait)
        back_off = wait
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300, 300]


def test_ten_minutes_of_running_are_a_new_beginning() -> None:
    assert after_end(ALWAYS, exit_code=1, restarts=7, back_off=300, ran=599.9) == 300
    assert after_end(ALWAYS, exit_code=1, restarts=7, back_off=300, ran=600.0) == 0
    assert after_end(ALWAYS, exit_code=1, restarts=8, back_off=0, ran=1.0) == 10
