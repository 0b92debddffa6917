"""Whose bundle it is, and which engines are out of reach."""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from zun.runtime.cri import engine_host, forsaken, shims
from zun.runtime.cri.engine_host import OutOfReach, _began, engine_process

UUID = "11111111-2222-3333-4444-555555555555"
IDENT = "a" * 64


def bundle(tmp_path: Path, logs: str, namespace: str = "zun") -> Path:
    made = tmp_path / IDENT
    made.mkdir()
    told = {
        "io.kubernetes.cri.sandbox-id": IDENT,
        "io.kubernetes.cri.sandbox-namespace": namespace,
        "io.kubernetes.cri.sandbox-log-directory": logs,
    }
    joined = [{"type": "pid"}, {"type": "network", "path": "/run/netns/cni-1"}]
    (made / "config.json").write_text(json.dumps({"annotations": told, "linux": {"namespaces": joined}}))
    return made


def test_bundle_of_ours_tells_its_capsule(tmp_path: Path) -> None:
    made = bundle(tmp_path, f"/logs/{UUID}")
    assert shims.capsule_of(made, Path("/logs")) == UUID
    assert shims.sandbox_of(made) == IDENT
    assert shims.namespace_of(made) == "/run/netns/cni-1"
    assert shims.bundles(tmp_path) == [made]


@pytest.mark.parametrize(
    ("logs", "namespace"),
    [(f"/logs/{UUID}", "default"), (f"/others/{UUID}", "zun"), ("/logs/name", "zun"), ("", "zun")],
)
def test_bundle_of_another_tells_none(tmp_path: Path, logs: str, namespace: str) -> None:
    assert shims.capsule_of(bundle(tmp_path, logs, namespace), Path("/logs")) == ""


@pytest.mark.parametrize("text", ["", "[]", "{", '{"annotations": null}', '{"linux": {}}'])
def test_bundle_that_cannot_be_read_is_nobodys(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    assert shims.capsule_of(tmp_path, Path("/logs")) == ""
    assert shims.namespace_of(tmp_path) == ""
    assert shims.capsule_of(tmp_path / "none", Path("/logs")) == ""


def test_socket_of_another_program_is_no_engine_of_this_host(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        listening.listen()
        with pytest.raises(OutOfReach, match=r"another program's|not root"):
            engine_process(path)
    with pytest.raises((OSError, OutOfReach)):
        engine_process(path)


def test_what_was_made_just_before_a_process_is_older_than_it() -> None:
    before = time.time()
    process = subprocess.Popen(["sleep", "60"])
    try:
        assert before - 0.02 < _began(process.pid) < time.time() + 0.02
    finally:
        process.kill()
        process.wait()


def test_who_is_held_up_between_two_clocks_knows_when_the_machine_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    since, looks, held = [5.0], itertools.count(), iter([9.0, 3.0, 0.0, 9.0, 7.0])

    def since_start(_: int) -> float:
        if next(looks) % 2:  # the second look of a pair comes late, but once
            since[0] += next(held)
        return since[0]

    clocks = SimpleNamespace(CLOCK_BOOTTIME=7, clock_gettime=since_start, time=lambda: 1000.0 + since[0])
    monkeypatch.setattr(engine_host, "time", clocks)
    assert engine_host._booted() == 1000.0


def test_namespaces_that_a_configuration_joins_are_somebodys() -> None:
    used, free = Path("/run/netns/cni-1"), Path("/run/netns/cni-2")
    spec = json.dumps({"linux": {"namespaces": [{"type": "network", "path": str(used)}]}}).encode()
    assert forsaken.not_joined([used, free], [spec, b"", b"[]", b"{}"]) == [free]
