"""Runs zun-tempest-plugin, unmodified, on this product beside the testbed: ``python -m tests.tempest.run --help``."""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.cloud_product import CloudProduct
from tests.support.engine import Engine
from tests.support.registry import start_registry
from tests.support.testbed import REGION, Testbed
from tests.tempest.docker_tcp import forwarder, mirror, only_run
from tests.tempest.images import push_all
from tests.tempest.workspace import PLUGIN, Result, Workspace, require_tempest

TIME_LIMIT = 1800.0  # seconds, a pass
_SAME_ADDRESSES = ("_with_network", "_with_shared_network", "_with_no_gateway_subnet")
"""Tests that all use 10.1.0.0/24: never side by side."""


@dataclass(frozen=True)
class Pass:
    """The plugin asks for one version a run; this one covers ``covers``."""

    name: str
    version: str
    covers: str
    regex: str


PASSES = (
    Pass("1.12", "1.19", "1.12 to 1.19", rf"^{PLUGIN}.*(TestContainerLegacy|TestService|TestCapsule)\."),
    Pass("1.20", "1.24", "1.20 to 1.24", rf"^{PLUGIN}.*TestContainer\."),
    Pass("1.25", "1.39", "1.25 to 1.39", rf"^{PLUGIN}.*TestContainer\."),
    Pass("1.40", "1.40", "1.40", rf"^{PLUGIN}.*(TestContainer|TestService|TestCapsule)\."),
)


@dataclass(frozen=True)
class Report:
    """Of one pass."""

    tempest: Pass
    results: Sequence[Result]
    stories: str
    seconds: float

    @property
    def failed(self) -> list[str]:
        return [one.name for one in self.results if one.result == "FAILED"]

    @property
    def passed(self) -> list[str]:
        return [one.name for one in self.results if one.result == "ok"]

    def text(self) -> str:
        lines = [f"== {self.tempest.covers}"]
        for one in sorted(self.results, key=lambda each: each.name):
            reason = f": {one.reason}" if one.reason else ""
            lines.append(f"{one.result:8}{one.seconds:7.1f} s  {one.name.removeprefix(PLUGIN + '.')}{reason}")
        skipped = len(self.results) - len(self.passed) - len(self.failed)
        lines.append(f"{len(self.passed)} passed, {len(self.failed)} failed, {skipped} skipped, {self.seconds:.0f} s")
        return "\n".join(lines)


class Tempest:
    """A product, the images and the Docker port that the plugin needs; ``run`` as often as wanted."""

    def __init__(self, folder: Path, testbed: Testbed, product: CloudProduct, catalog_type: str) -> None:
        self.folder, self.testbed, self.product, self.catalog_type = folder, testbed, product, catalog_type

    def run(self, tempest: Pass, *, lanes: int = 2, regex: str | None = None) -> Report:
        """One pass, its tests spread over ``lanes`` workspaces."""
        began = time.monotonic()
        first = random.randrange(20, 90)
        workspaces = [
            Workspace(
                self.folder / f"{tempest.name}-{lane}",
                version=tempest.version,
                catalog_type=self.catalog_type,
                cidr=f"10.{first + lane}.0.0/16",
            )
            for lane in range(lanes)
        ]
        chosen = workspaces[0].tests(regex or tempest.regex)
        split = [(space, names) for space, names in zip(workspaces, spread(chosen, lanes), strict=True) if names]
        processes = [space.start(names) for space, names in split]
        try:
            for process in processes:
                process.wait(max(1.0, TIME_LIMIT - (time.monotonic() - began)))
        except subprocess.TimeoutExpired:
            print(f"The pass was not over after {TIME_LIMIT:.0f} s; it is ended.", file=sys.stderr)
        finally:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
                process.wait(60)
        results, stories = [], []
        for space, names in split:
            found = space.results()
            results += [*found, *_without_result(names, found)]
            bad = [one for one in found if one.result == "FAILED"]
            stories += [f"--- {one.name}\n{space.failure(one)}" for one in bad] or [space.story()]
        return Report(tempest, results, "\n".join(stories), time.monotonic() - began)


def _without_result(names: Sequence[str], found: Sequence[Result]) -> list[Result]:
    """Tests that tempest says nothing of: skipped with their class, or never come to."""
    told = {one.name for one in found}
    skipped = {one.name.rpartition("(")[2].rstrip(")"): one.reason for one in found if one.result == "SKIPPED"}
    silent = sorted({name.split("[")[0] for name in names} - told)
    return [
        Result(name, "SKIPPED", skipped[kind], 0.0) if kind in skipped else Result(name, "FAILED", "no result", 0.0)
        for name, kind in ((name, name.rpartition(".")[0]) for name in silent)
    ]


def spread(tests: Sequence[str], lanes: int) -> list[list[str]]:
    """Over the lanes in turn; what uses the same addresses goes into the first."""
    found: list[list[str]] = [[] for _ in range(lanes)]
    for name in sorted(tests):
        if any(name.split("[")[0].endswith(part) for part in _SAME_ADDRESSES):
            found[0].append(name)
        else:
            min(reversed(found), key=len).append(name)
    return found


@contextlib.contextmanager
def started(folder: Path, testbed: Testbed, engine: Engine, *, driver: str = "kuryr") -> Iterator[Tempest]:
    """All that a run needs, for the length of the block; nothing of it is left."""
    require_tempest()
    with contextlib.ExitStack() as stack:
        stack.enter_context(only_run())
        registry = start_registry(folder / "registry")
        stack.callback(registry.stop)
        push_all(registry)
        stack.enter_context(forwarder())
        stack.enter_context(mirror(registry.address, engine))
        product = CloudProduct(folder / "product", testbed, engine)
        stack.callback(product.close)
        product.conf(docker={"default_registry": registry.address}, network={"driver": driver}).start()
        yield Tempest(folder, testbed, product, stack.enter_context(_in_the_catalogue(testbed, product)))


@contextlib.contextmanager
def _in_the_catalogue(testbed: Testbed, product: CloudProduct) -> Iterator[str]:
    """A service type of the product's own, so that the one of the cloud stays as it is."""
    kind = f"container-{product.name}"
    made = testbed.admin.call("identity", "POST", "/services", json={"service": {"type": kind, "name": product.name}})
    service = made["service"]["id"]
    try:
        endpoint = {
            "service_id": service,
            "interface": "public",
            "url": f"{product.url}/v1",
            "region_id": REGION,
        }
        testbed.admin.call("identity", "POST", "/endpoints", json={"endpoint": endpoint})
        yield kind
    finally:
        testbed.admin.call("identity", "DELETE", f"/services/{service}", absent_ok=True)


def main() -> int:
    """0 when no test failed."""
    parser = argparse.ArgumentParser(description="Run zun-tempest-plugin against this product beside the testbed.")
    parser.add_argument("--version", choices=[one.name for one in PASSES], help="one pass only; all unless given")
    parser.add_argument("--driver", choices=["kuryr", "direct"], default="kuryr", help="[network]/driver")
    parser.add_argument("--lanes", type=int, default=2, help="workspaces side by side")
    parser.add_argument("--regex", help="only these tests")
    parser.add_argument("--keep", type=Path, help="where logs and workspaces stay")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what was set up is taken down
    folder = Path(tempfile.mkdtemp(prefix="zun-tempest-"))
    engine, failed = Engine(), False
    try:
        testbed = Testbed()
        with contextlib.closing(testbed), started(folder, testbed, engine, driver=given.driver) as tempest:
            for one in PASSES:
                if given.version in (None, one.name):
                    report = tempest.run(one, lanes=given.lanes, regex=given.regex)
                    print(*([report.stories] if report.failed else []), report.text(), sep="\n", flush=True)
                    failed = failed or bool(report.failed) or not report.passed
    except AssertionError as error:
        print(error, file=sys.stderr)
        failed = True
    finally:
        engine.close()
        if given.keep:
            shutil.copytree(folder, given.keep, dirs_exist_ok=True, ignore=shutil.ignore_patterns("data", "layouts"))
        shutil.rmtree(folder, ignore_errors=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
