"""Sends fuzzed requests one after another and notes what is wrong: one of several processes of a run.

python -m tests.fuzz.worker PLACES.json REQUESTS SEED FOLDER SECONDS. What was found is printed as JSON at the end;
requests with a wrong answer are files in FOLDER, which ``tests.fuzz.main --replay`` sends again.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz import wire
from tests.fuzz.cases import Case, case
from tests.fuzz.targets import Targets

ROUND = 1000
"""Requests of one seed."""
_BY_HYPOTHESIS = 10
"""In each such round every single choice is Hypothesis's, which likes edges; elsewhere only where a generator of random
numbers begins, which is ten times as fast."""
_MOST_FAULTS = 25


@dataclass
class Found:
    """What a worker reports."""

    sent: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    """How often each ``label status`` was answered; status 0 for none."""
    slowest: float = 0.0
    slowest_label: str = ""
    faults: list[dict[str, Any]] = field(default_factory=list)
    """Each different fault once: what, how often, file of the first request, its seed."""


class Worker:
    """The requests of one process."""

    def __init__(self, targets: Targets, folder: Path) -> None:
        self.targets, self.folder = targets, folder
        self.found = Found()
        self._started = self._end = time.monotonic()

    def run(self, requests: int, first_seed: int, seconds: float) -> Found:
        """Rounds of ``ROUND`` requests, each with the next seed; nothing is sent after ``seconds``."""
        number = first_seed
        self._end = self._started + seconds
        while self.found.sent < requests and time.monotonic() < self._end:
            self._round(number, min(ROUND, requests - self.found.sent))
            number += 1
            rate = self.found.sent / (time.monotonic() - self._started)
            faults = len(self.found.faults)
            print(
                f"seed {number - 1}: {self.found.sent} sent, {rate:.0f}/s, {faults} faults", file=sys.stderr, flush=True
            )
        self.targets.close()
        return self.found

    def _round(self, number: int, requests: int) -> None:
        self.targets.renew()
        limit = self.found.sent + requests

        @seed(number)
        @settings(
            max_examples=requests, database=None, deadline=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(st.randoms(use_true_random=number % _BY_HYPOTHESIS != 0))
        def one(random: Random) -> None:
            if self.found.sent < limit and time.monotonic() < self._end:
                self._send(case(random), number)

        one()

    def _send(self, case: Case, number: int) -> None:
        self.found.sent += 1
        data = wire.filled(case.data, self.targets.places)
        try:
            answer = wire.send(self.targets.port, data, framed=case.framed, patient=case.patient, no_body=case.no_body)
            wrong = wire.faults(answer, framed=case.framed, no_body=case.no_body)
        except (wire.Hang, ConnectionRefusedError) as error:
            answer, wrong = wire.NOTHING, [str(error)]
        self.found.answers[f"{case.label} {answer.status}"] += 1
        if answer.seconds > self.found.slowest:
            self.found.slowest, self.found.slowest_label = answer.seconds, case.label
        for text in wrong:
            self._note(case, text, number, answer)
        if answer.status == 202:
            self.targets.made(case.label, answer.body)

    def _note(self, case: Case, text: str, number: int, answer: wire.Answer) -> None:
        what = f"{case.label}: {text}"
        for known in self.found.faults:
            if known["what"] == what:
                known["times"] += 1
                return
        if len(self.found.faults) < _MOST_FAULTS:
            file = self.folder / f"fault-{number}-{len(self.found.faults)}.json"
            shown = asdict(case) | {"data": base64.b64encode(case.data).decode()}
            file.write_text(json.dumps(shown | {"what": what, "answer": repr(answer.body[:2000])}))
            request = repr(case.data[:700])
            self.found.faults.append(
                {"what": what, "times": 1, "file": str(file), "seed": number, "request": request,
                 "answer": answer.body[:300].decode("latin-1")}
            )  # fmt: skip


def main() -> None:
    """See the module."""
    places, requests, first_seed, folder, seconds = sys.argv[1:6]
    targets = Targets.read(Path(places))
    print(json.dumps(vars(Worker(targets, Path(folder)).run(int(requests), int(first_seed), float(seconds)))))


if __name__ == "__main__":
    main()
