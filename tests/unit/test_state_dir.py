"""The state directory: what the first start writes, who holds it, how refusals read."""

from __future__ import annotations

import errno
import os
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from zun import conf
from zun.cli.problem import Problem
from zun.cli.state import StateDir, describe, start_time
from zun.cli.token import parse_expires

NOW = datetime(2026, 1, 1)


def test_first_start_writes_a_private_configuration_that_loads(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "with $dollar")
    assert state.prepare(19517) is True
    assert state.conf_file.stat().st_mode & 0o777 == 0o600
    loaded = conf.load([], files=[str(state.conf_file)])
    assert loaded.api.port == 19517
    assert loaded.state_path == str(state.root)
    assert loaded.database.connection == f"sqlite:///{state.root}/zun.sqlite"
    assert len(loaded.auth_encryption_key) == 32
    assert loaded.compute.fractional_cpu is True


def test_second_start_keeps_what_the_operator_changed(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.prepare()
    state.conf_file.write_text("[api]\nport = 1\n")
    assert state.prepare(19517) is False
    assert state.conf_file.read_text() == "[api]\nport = 1\n"


def test_openrc_clears_what_contradicts_it_and_works_in_sh(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.write_openrc("http://127.0.0.1:9517/v1", "secret")
    assert state.openrc.stat().st_mode & 0o777 == 0o600
    script = f". {state.openrc}; env | grep ^OS_ | sort"
    env = {"PATH": os.environ["PATH"], "OS_CLOUD": "other", "OS_AUTH_URL": "http://keystone"}
    shown = subprocess.run(["sh", "-uc", script], env=env, capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["OS_AUTH_TYPE=admin_token", "OS_ENDPOINT=http://127.0.0.1:9517/v1", "OS_TOKEN=secret"]
    assert state.read_endpoint() == "http://127.0.0.1:9517/v1"


def test_the_lock_names_its_holder_and_ends_with_it(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.prepare()
    with state.lock():
        assert state.running_pid() == os.getpid()
        with pytest.raises(Problem, match=f"already runs from .*process {os.getpid()}"), StateDir(tmp_path).lock():
            raise AssertionError("two instances hold one state directory")
    assert state.running_pid() is None
    with StateDir(tmp_path).lock():
        assert state.running_pid() == os.getpid()


def test_a_recycled_pid_is_not_ours(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.pid_file.write_text(f"{os.getpid()}\n")
    state.started_file.write_text(f"{(start_time(os.getpid()) or 0) - 1}\n")
    assert state.running_pid() is None


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "The disk of the state directory /s is full."),
        (errno.EROFS, "The state directory /s cannot be used: Read-only file system. Choose another with --state-dir."),
    ],
)
def test_refusals_of_the_system_are_one_sentence(number: int, said: str) -> None:
    assert describe(OSError(number, os.strerror(number)), Path("/s")) == said


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Problem, match="cannot be used: File exists"):
        StateDir(tmp_path / "file").prepare()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12h", NOW + timedelta(hours=12)),
        ("30d", NOW + timedelta(days=30)),
        ("2026-06-01", datetime(2026, 6, 1)),
        ("2026-06-01T12:00:00+02:00", datetime(2026, 6, 1, 10)),
    ],
)
def test_expires(text: str, expected: datetime) -> None:
    assert parse_expires(text, NOW) == expected


@pytest.mark.parametrize("text", ["soon", "2025-01-01", "12", "99999999999w", "-1h"])
def test_expires_that_makes_no_sense(text: str) -> None:
    with pytest.raises(Problem, match="--expires"):
        parse_expires(text, NOW)
