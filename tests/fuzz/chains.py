"""The schemathesis command on the served document, and rounds of it until so many requests were sent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.population import Population
from tests.fuzz.server import Log
from tests.support.live import Live

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
    "missing_required_header",
)
NEWEST = "--header=OpenStack-API-Version: container 1.40"
HOOKS, IDENTS = "SCHEMATHESIS_HOOKS", "ZUN_FUZZ_IDENTS"
_STEPS = "[phases.stateful]\nmax-steps = 50\n"
"""Chains of six requests, the default, seldom act on what they made."""


@dataclass(frozen=True)
class Round:
    """One run of the command: what it found, and how often each ``operation status`` was answered."""

    output: str
    failed: bool
    seen: Counter[str]


def run(zun: Live, token: str, *options: str, seed: int = 20250101, timeout: float = 600, idents: Path) -> Round:
    """Runs schemathesis. ``timeout``: seconds; ``idents``: names of things that half of the requests are about."""
    log = Log(zun)
    done = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "run", f"{zun.url}/openapi.json", "--no-color", f"--seed={seed}",
            "--generation-database=none", "--continue-on-failure", "--no-shrink", "--warnings=off",
            f"--checks={','.join(CHECKS)}", f"--header=X-Auth-Token: {token}", *options,
        ],
        cwd=zun.state.root,
        env={
            **os.environ, "PYTHONPATH": os.getcwd(),
            HOOKS: "tests.fuzz.hooks", IDENTS: str(idents),
        },
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )  # fmt: skip
    seen = Counter(" ".join(pair) for pair in log.requests())
    return Round(f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}", done.returncode != 0, seen)


def rounds(
    population: Population, folder: Path, *, requests: int, seed: int, examples: int, options: Sequence[str] = ()
) -> tuple[Counter[str], list[str]]:
    """Chains of requests until ``requests`` were answered: how often each ``operation status`` was, and what was wrong.
    ``examples``: chains of one round; what they deleted is made again before the next."""
    log, seen, faults = Log(population.zun), Counter[str](), list[str]()
    idents = folder / "idents.json"
    (population.zun.state.root / "schemathesis.toml").write_text(_STEPS)
    number = seed
    while seen.total() < requests and len(faults) < 5:
        population.add()
        population.write_idents(idents)
        token = population.world.admin.token if number % 3 else population.members["ours"].token
        version = (NEWEST,) if number % 4 else ()  # otherwise drawn, too
        done = run(
            population.zun, token, "--phases=stateful", f"--max-examples={examples}", *version, *options,
            seed=number, timeout=1800, idents=idents,
        )  # fmt: skip
        seen += done.seen
        print(f"seed {number}: {seen.total()} answered", file=sys.stderr, flush=True)
        if done.failed:
            faults.append(f"seed {number}: {done.output}")
            print(f"FAULT {faults[-1]}", file=sys.stderr, flush=True)
        number += 1
    return seen, faults + log.faults()[:20]
