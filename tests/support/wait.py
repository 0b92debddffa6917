"""Waiting on conditions with a deadline; the only waits tests use."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

_FIRST_PAUSE = 0.01  # seconds
_LONGEST_PAUSE = 0.25


async def eventually(condition: Callable[[], T | Awaitable[T]], timeout: float, why: str) -> T:
    """The first true value of ``condition`` (plain or async); after ``timeout`` it fails with ``why``."""
    deadline, pause = time.monotonic() + timeout, _FIRST_PAUSE
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {why}; last: {value!r}")
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)


def wait_until(condition: Callable[[], T], timeout: float, why: str) -> T:
    """The same for code that is not async."""
    deadline, pause = time.monotonic() + timeout, _FIRST_PAUSE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {why}; last: {value!r}")
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
