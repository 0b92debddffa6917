"""``zun-manage placement audit``: runs the audit and shows what it found."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import typer

from zun.control.placement_audit import Finding, Kind, Report
from zun.control.placement_audit import audit as look

_WAIT = 5.0
_TEXTS = {
    Kind.LEAKED: "holds {held}, and there is no container that should",
    Kind.MISSING: "holds nothing, and should hold {wanted}",
    Kind.WRONG: "holds {held}, and should hold {wanted}",
}


def run(conf: Any, *, heal: bool, as_json: bool, wait: float | None) -> int:
    """The exit code: 0 all is right now, 1 not. Raises ZunError, ConfigError."""
    report = asyncio.run(_audit(conf, heal, _default_wait(conf) if wait is None else wait))
    typer.echo(_document(report) if as_json else _text(report, heal))
    return 0 if report.clean else 1


def _default_wait(conf: Any) -> float:
    """With image validation a create asks its node between the claim and the record."""
    return _WAIT + (float(conf.rpc_response_timeout) if conf.api.enable_image_validation else 0.0)


async def _audit(conf: Any, heal: bool, wait: float) -> Report:
    from zun import parts

    async with parts.counting(conf) as tools:
        return await look(tools, heal=heal, wait=wait)


def _document(report: Report) -> str:
    return json.dumps(asdict(report) | {"clean": report.clean}, indent=2)


def _text(report: Report, heal: bool) -> str:
    lines = [_line(finding, heal) for finding in report.findings]
    lines.append(
        f"{report.containers} containers, {report.providers} providers, {report.consumers} consumers"
        f" ({report.others} of other services): "
        + (f"{len(report.findings)} findings." if report.findings else "all is right.")
    )
    return "\n".join(lines)


def _line(finding: Finding, heal: bool) -> str:
    if finding.kind == Kind.PROVIDER:
        words = f"{finding.kind}: provider {finding.provider} ({finding.host}) is of no node"
    else:
        said = _TEXTS[finding.kind].format(held=_amounts(finding.held), wanted=_amounts(finding.wanted))
        words = f"{finding.kind}: container {finding.consumer} {said}"
    if not heal:
        return words
    return f"{words} -> {'made right' if finding.healed else f'left: {finding.note}'}"


def _amounts(held: Mapping[str, Mapping[str, int]]) -> str:
    return "; ".join(
        ", ".join(f"{amount} {name}" for name, amount in sorted(resources.items())) + f" of {provider}"
        for provider, resources in held.items()
    )
