"""``zun-manage audit``: what is ours outside and no record claims; told, and removed when asked."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import typer

from zun.compute.audit.base import Finding, Kind, Report
from zun.conf import ConfigError

SCOPES = ("all", "node", "cloud")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST = 36500 * 86400
_HEAD = ("KIND", "NAME", "CONTAINER", "AGE", "STATE", "WHY")


def duration(text: str) -> timedelta:
    """``90``, ``90s``, ``10m``, ``2h``, ``1d``. Raises ConfigError."""
    found = re.fullmatch(r"(\d{1,9})([smhd]?)", text.strip())
    if found is None:
        raise ConfigError(f"--grace '{text}' is no length of time: use a number with s, m, h or d, such as 10m")
    length = int(found[1]) * _UNITS[found[2]]
    if length > _LONGEST:
        raise ConfigError(f"--grace '{text}' is longer than a hundred years")
    return timedelta(seconds=length)


def run(conf: Any, *, heal: bool, grace: timedelta, scope: str, host: str | None, as_json: bool) -> int:
    """The exit code. Raises ZunError, ConfigError."""
    from zun.cli.process import set_up_logs

    if scope not in SCOPES:
        raise ConfigError(f"--scope '{scope}' is none of {', '.join(SCOPES)}")
    if host is not None:
        conf.set_override("host", host)
    conf.set_override("use_stderr", True)  # stdout is the report's
    set_up_logs(conf)
    if not conf.debug:
        logging.getLogger().setLevel(logging.WARNING)  # removals are told there, and what failed
    report = asyncio.run(audit(conf, heal=heal, grace=grace, scope=scope))
    typer.echo(_document(report) if as_json else text(report, heal=heal))
    return report.exit_code


async def audit(conf: Any, *, heal: bool, grace: timedelta, scope: str) -> Report:
    """On parts of its own. Raises ZunError, ConfigError."""
    from zun import parts, wiring
    from zun.compute.audit.audit import Audit
    from zun.compute.audit.cloud import CloudKinds
    from zun.compute.audit.ledger import Ledger
    from zun.compute.audit.node import NodeKinds
    from zun.domain.vitals import Vitals

    async with parts.build(conf, alone=True) as built:
        node, kinds, skipped = NodeKinds(wiring.node_of(built, Vitals())), list[Kind](), dict[str, str]()
        if scope != "cloud" and await node.is_node():
            kinds += node.all()
        elif scope != "cloud":
            skipped = {kind.name: f"{conf.host} is no node" for kind in node.all()}
        if scope != "node":
            kinds += CloudKinds(built.control(), conf.host, grace).all()
        report = await Audit(conf.host, built.clock, Ledger(conf.state_path), heal=heal, grace=grace).run(kinds)
        report.skipped |= skipped
        return report


def _document(report: Report) -> str:
    return json.dumps(asdict(report) | {"clean": report.clean}, indent=2)


def text(report: Report, *, heal: bool) -> str:
    """For people: a table of what is left, then what could not be told, then one sentence."""
    lines = _table([_HEAD, *map(_row, report.findings)]) if report.findings else []
    lines += [f"{kind}: not looked at: {reason}" for kind, reason in report.skipped.items()]
    lines += [f"{kind}: could not be told: {reason}" for kind, reason in report.failed.items()]
    left = sum(finding.state != "removed" for finding in report.findings)
    removed = len(report.findings) - left
    count = f"{left} left" if report.findings else "nothing is left" if not report.failed else "nothing else is left"
    done = f", {removed} removed" if heal and report.findings else ""
    return "\n".join([*lines, f"{report.host}: {len(report.looked_at)} kinds looked at: {count}{done}."])


def _row(finding: Finding) -> Sequence[str]:
    why = f"{finding.why}; {finding.note}" if finding.note else finding.why
    age = str(timedelta(seconds=finding.age))
    return finding.kind, finding.name, finding.container or "-", age, finding.state, why


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows]
