"""``zun-manage node``: empty a node, let it take containers again, and say what is on it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

import typer

from zun.conf import ConfigError
from zun.control import draining
from zun.control.draining import Report
from zun.scheduler.scheduler import Tools

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def seconds(text: str) -> int:
    """Of ``90``, ``90s``, ``10m``, ``1h``. Raises ConfigError."""
    found = re.fullmatch(r"(\d{1,6})([smh]?)", text.strip())
    if found is None:
        raise ConfigError(f"--deadline {text!r} is no time: use 90s, 10m or 1h")
    return int(found[1]) * _UNITS[found[2]]


def drain(conf: Any, host: str, deadline: str, *, as_json: bool) -> int:
    """The exit code: 0 the node is empty, 1 not. Raises ZunError, ConfigError."""
    longest = seconds(deadline)
    return _told(conf, lambda tools: draining.Drain(tools, host).run(longest), as_json)


def undrain(conf: Any, host: str, *, as_json: bool) -> int:
    """0: it takes containers again. Raises ZunError, ConfigError."""

    async def work(tools: Tools) -> Report:
        await draining.undrain(tools, host)
        return await draining.look(tools, host)

    _told(conf, work, as_json)
    return 0


def status(conf: Any, host: str, *, as_json: bool) -> int:
    """0: the node is empty, 1 not. Raises ZunError, ConfigError."""
    return _told(conf, lambda tools: draining.look(tools, host), as_json)


def _told(conf: Any, work: Callable[[Tools], Awaitable[Report]], as_json: bool) -> int:
    report = asyncio.run(_with_tools(conf, work))
    typer.echo(json.dumps(asdict(report) | {"empty": report.empty}, indent=2) if as_json else text(report))
    return 0 if report.empty else 1


async def _with_tools(conf: Any, work: Callable[[Tools], Awaitable[Report]]) -> Report:
    from zun import parts
    from zun.store.clock import DatabaseClock

    async with parts.counting(conf) as counting:
        clock = DatabaseClock(counting.db)  # nodes' heartbeats are judged by it
        async with clock.followed():
            return await work(dataclasses.replace(counting, clock=clock))


def text(report: Report) -> str:
    """For people."""
    state = "up" if report.up else "down"
    taking = f"disabled ({report.disabled_reason or 'no reason given'})" if report.disabled else "enabled"
    lines = [f"{report.host}: {state}, {taking}"]
    lines += [f"{one.uuid} {one.name} {one.reason}" for one in report.stays]
    moved = f"{report.moved} moved, " if report.moved else ""
    lines.append(f"{moved}empty" if report.empty else f"{moved}{len(report.stays)} left")
    return "\n".join(lines)
