"""Looks at each kind by itself, and removes what is older than the grace time when it is asked to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta

from zun.compute.audit.base import Finding, Kind, Leftover, NotHere, Report, State
from zun.compute.audit.ledger import Ledger
from zun.domain.clock import Clock
from zun.domain.errors import ZunError

LOG = logging.getLogger(__name__)

LONGEST = 300.0
"""Seconds one kind may take, removals and all: all calls have deadlines, and leftovers are few."""


class Audit:
    """``grace``: how old a leftover has to be to be removed; what is younger may be in the making."""

    def __init__(self, host: str, clock: Clock, ledger: Ledger, *, heal: bool, grace: timedelta) -> None:
        self._clock = clock
        self._ledger = ledger
        self._heal = heal
        self._grace = grace
        self._report = Report(host)

    async def run(self, kinds: Sequence[Kind]) -> Report:
        """One after the other, in their order: what holds others goes first. A kind that fails stops no other."""
        for kind in kinds:
            try:
                async with asyncio.timeout(LONGEST):
                    await self._one(kind)
                self._report.looked_at.append(kind.name)
            except NotHere as reason:
                self._report.skipped[kind.name] = str(reason)
            except (ZunError, OSError, TimeoutError) as error:
                self._failed(kind, error)
        await asyncio.to_thread(self._ledger.save)
        return self._report

    def _failed(self, kind: Kind, error: Exception) -> None:
        text = error.message if isinstance(error, ZunError) else str(error)
        reason = text or f"not within {LONGEST:g} seconds"
        LOG.warning("action=audit kind=%s result=not looked at reason=%s", kind.name, reason)
        self._report.failed[kind.name] = reason

    async def _one(self, kind: Kind) -> None:
        found = {one.name: one for one in await kind.look()}
        self._ledger.keep(kind.name, found)
        findings = {name: self._finding(kind, one) for name, one in found.items()}
        self._report.findings += findings.values()
        due = [name for name, finding in findings.items() if finding.age >= self._grace.total_seconds()]
        if not self._heal:
            return
        for name in findings.keys() - set(due):
            findings[name].state = State.YOUNG
        if due:
            await self._remove(kind, findings, due)

    def _finding(self, kind: Kind, one: Leftover) -> Finding:
        now = self._clock.now()
        since = one.since or self._ledger.first_seen(kind.name, one.name, now)
        return Finding(kind.name, one.name, one.container, one.why, max(0, int((now - since).total_seconds())))

    async def _remove(self, kind: Kind, findings: dict[str, Finding], due: Sequence[str]) -> None:
        """What is left in a second look too; and what a third look still finds was not removed."""
        again = {one.name: one for one in await kind.look()}
        for name in due:
            if name in again:
                findings[name].note = await self._removed(kind, again[name])
        left = {one.name for one in await kind.look()}
        self._ledger.keep(kind.name, left)
        for name in due:
            finding = findings[name]
            finding.state = State.KEPT if name in left else State.REMOVED
            if name in left:
                finding.note = finding.note or "it is still there"
            elif name in again:
                finding.note = ""
                LOG.warning(
                    "action=audit kind=%s name=%s container=%s result=removed", kind.name, name, finding.container
                )
            else:
                finding.note = "it went by itself"

    async def _removed(self, kind: Kind, one: Leftover) -> str:
        """What stood in the way."""
        try:
            note = await one.remove()
        except (ZunError, OSError) as error:
            note = error.message if isinstance(error, ZunError) else str(error)
        if note:
            LOG.warning("action=audit kind=%s name=%s result=kept reason=%s", kind.name, one.name, note)
        return note
