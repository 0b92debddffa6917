"""Fuzzed creates, changes, capsules and archives, by several processes at once on one product."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.population import Population
from tests.fuzz.server import Log, Memory
from tests.fuzz.targets import Targets
from tests.support.wait import wait_until

_TIDY = 900
"""Seconds for deleting what was made."""
_APART = 1_000_000
"""Between the seeds of two processes."""


@dataclass(frozen=True)
class Outcome:
    """``faults`` is empty when every invariant held."""

    sent: int
    answers: Counter[str]
    slowest: float
    memory: tuple[float, float]
    faults: list[str]


def run(population: Population, folder: Path, *, requests: int, seed: int, workers: int, seconds: float) -> Outcome:
    """All requests and, afterwards, whether the product is well. ``seconds``: after these nothing is
    sent any more."""
    log, places = Log(population.zun), folder / "places.json"
    Targets.write(places, population.zun.port, population.places())
    with Memory(population.zun) as memory:
        shares = [requests // workers + (number < requests % workers) for number in range(workers)]
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.worker", str(places), str(share), str(seed + number * _APART),
                 str(folder), str(seconds)],
                stdout=subprocess.PIPE,
            )
            for number, share in enumerate(shares)
        ]  # fmt: skip
        try:
            reports = [_report(process, seconds + _TIDY) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    faults = [text for report in reports for text in map(_told, report["faults"])]
    faults += memory.faults() + _ill(population) + log.faults()[:20]
    answers = sum((Counter(report["answers"]) for report in reports), Counter[str]())
    slowest = max(report["slowest"] for report in reports)
    return Outcome(sum(report["sent"] for report in reports), answers, slowest, memory.ends, faults)


def _report(process: subprocess.Popen[bytes], timeout: float) -> dict[str, Any]:
    output, _ = process.communicate(timeout=timeout)
    assert process.returncode == 0, f"a worker failed with {process.returncode}"
    found: dict[str, Any] = json.loads(output)
    return found


def _told(fault: dict[str, Any]) -> str:
    lines = [f"{fault['what']} ({fault['times']} times, seed {fault['seed']}, {fault['file']})"]
    return "\n    ".join([*lines, f"request: {fault['request']}", f"answer: {fault['answer']}"])


def _ill(population: Population) -> list[str]:
    """Does the product still make and delete a container, and count what there is?"""
    world, member = population.world, population.members["ours"]
    body = {"image": "busybox", "cpu": 0.1, "memory": 16}
    made = world.send("POST", "/v1/containers?run=true", member, json=body)
    if made.status_code != 202:
        return [f"a create is answered {made.status_code}: {made.text}"]
    path = f"/v1/containers/{made.json()['uuid']}"
    wait_until(lambda: world.get(path, member)["status"] == "Running", 120, "a container runs afterwards")
    gone = world.send("DELETE", f"{path}?stop=true", member)
    if gone.status_code != 204:
        return [f"a delete is answered {gone.status_code}: {gone.text}"]
    wait_until(lambda: world.send("GET", path, member).status_code == 404, 120, "a container is deleted afterwards")
    try:
        wait_until(lambda: not population.lies(), 120, "usage is what there is, and operations are done")
    except AssertionError as error:
        return [str(error), *population.lies()]
    return []
