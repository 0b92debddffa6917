"""OpenStack's own tests of this API, zun-tempest-plugin, at the newest version; `make tempest` runs the older ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.engine import Engine
from tests.support.testbed import Testbed
from tests.tempest.run import PASSES, started


@pytest.mark.slow
@pytest.mark.xdist_group("shared-networks")  # makes one that everybody sees
@pytest.mark.timeout(1500)
def test_the_newest_version_passes(tmp_path: Path, testbed: Testbed, engine: Engine) -> None:
    newest = PASSES[-1]
    with started(tmp_path, testbed, engine) as tempest:
        report = tempest.run(newest)
    assert report.passed
    assert not report.failed, f"{report.stories}\n{report.text()}"
