"""docs/reference is what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).parents[2]


def test_the_generated_reference_is_up_to_date() -> None:
    command = [sys.executable, "scripts/gen_reference.py", "--check"]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
