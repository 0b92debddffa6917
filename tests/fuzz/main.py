"""Requests that nobody sends, many of them, at a populated product on the simulated engine.

python -m tests.fuzz.main [--chained N] [--mutated N] [--workers N] [--seconds S] [--seed S] [--replay FILE]
(make fuzz)

Chained requests are schemathesis's, by the document's links; mutated ones are good creates, changes, capsules and
archives with changed values, bytes and heads. Ends with 1 when an invariant did not hold; what is printed then has the
seed and the file of the request.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.fuzz import chains, mutations, wire
from tests.fuzz.population import population
from tests.fuzz.server import GROWTH
from tests.fuzz.targets import Targets

CHAINED, MUTATED = 20_000, 100_000
_EXAMPLES = 300
"""Chains of one round, some three requests each."""
_WORKERS = 4


def _shown(answers: Counter[str]) -> str:
    """Answers by status, and the operations with the most of them."""
    statuses: Counter[str] = Counter()
    for name, times in answers.items():
        statuses[name.rpartition(" ")[2]] += times
    common = ", ".join(f"{name} {times}" for name, times in answers.most_common(12))
    return f"{dict(sorted(statuses.items()))}; {common}"


def chained(folder: Path, requests: int, seed: int) -> list[str]:
    """The chains; what was wrong."""
    started, examples = time.monotonic(), min(_EXAMPLES, -(-requests // 3))
    with population(folder / "chained") as made:
        seen, faults = chains.rounds(made, folder, requests=requests, seed=seed, examples=examples)
    print(f"{seen.total()} chained requests in {time.monotonic() - started:.0f} s, seed {seed}: {_shown(seen)}")
    return faults


def mutated(folder: Path, requests: int, seed: int, workers: int, seconds: float) -> list[str]:
    """The mutated requests; what was wrong."""
    started = time.monotonic()
    with population(folder / "mutated") as made:
        found = mutations.run(made, folder, requests=requests, seed=seed, workers=workers, seconds=seconds)
    warm, last = found.memory
    print(f"{found.sent} mutated requests in {time.monotonic() - started:.0f} s, seed {seed}: {_shown(found.answers)}")
    print(f"slowest answer {found.slowest:.2f} s (at most {wire.DEADLINE:g}); memory {warm:.0f} MiB after the warm-up,"
          f" {last:.0f} MiB at the end (at most {GROWTH} MiB more)")  # fmt: skip
    return found.faults


def replay(folder: Path, case: Mapping[str, object]) -> list[str]:
    """One request of an earlier run, again."""
    data = base64.b64decode(str(case["data"]))
    flags = {name: bool(case[name]) for name in ("framed", "no_body")}
    with population(folder / "replay") as made:
        targets = Targets(made.zun.port, made.places())
        targets.renew()
        answer = wire.send(made.zun.port, wire.filled(data, targets.places), patient=bool(case["patient"]), **flags)
        print(f"{data[:2000]!r}\n{answer.status} {answer.body[:2000]!r}")
        targets.close()
        return wire.faults(answer, **flags)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chained", type=int, default=CHAINED, help="requests of schemathesis (%(default)s; 0: none)")
    parser.add_argument("--mutated", type=int, default=MUTATED, help="mutated requests (%(default)s; 0: none)")
    parser.add_argument("--workers", type=int, default=_WORKERS, help="processes that send them (%(default)s)")
    parser.add_argument("--seconds", type=float, default=4 * 3600, help="no mutated request after these (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of all that is chosen (%(default)s)")
    parser.add_argument("--replay", type=Path, help="send the request of this file and nothing else")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="zun-fuzz-"))
    faults: list[str] = []
    if chosen.replay:
        faults += replay(folder, json.loads(chosen.replay.read_text()))
    else:
        if chosen.mutated:
            faults += mutated(folder, chosen.mutated, chosen.seed, chosen.workers, chosen.seconds)
        if chosen.chained:
            faults += chained(folder, chosen.chained, chosen.seed)
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"{len(faults)} faults; logs and requests are in {folder}" if faults else "no faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
