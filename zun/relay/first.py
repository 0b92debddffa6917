"""The first of several tasks that a session waits for, whichever side it is on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def first_of(*works: Coroutine[Any, Any, T]) -> T:
    """What the first to end returns, or raises; of several at the same moment, the one named first. The others are
    cancelled, and over when it returns."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task.done()).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
