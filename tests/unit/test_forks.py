"""Forked processes of the product are what real starts of it are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support import forks
from tests.support.live import ZUN, Live
from tests.support.wait import wait_until

SLEEPS = """
import time
from tests.support import forks
from tests.support.live import ZUN, Live
from pathlib import Path
import sys
forks.allow()
product = Live(Path(sys.argv[1])).start()
print(product.process.pid, product.process._loaded._process.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a run where all others are real."""
    monkeypatch.setattr(forks, "_allowed", True)


def both(*words: str) -> tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str]]:
    """The same command forked and started."""
    found = forks.run([str(ZUN), *words], timeout=60)
    with forks.real_starts():
        return found, forks.run([str(ZUN), *words], timeout=120)


@pytest.mark.parametrize(
    ("words", "code"),
    [(["version"], 0), (["--help"], 0), (["nonsense"], 2), (["up", "--state-dir", "/dev/null/no"], 1)],
    ids=["version", "help", "wrong", "refused"],
)
def test_says_what_a_real_start_says(words: list[str], code: int) -> None:
    found, wanted = both(*words)
    assert (found.returncode, found.stdout, found.stderr) == (wanted.returncode, wanted.stdout, wanted.stderr)
    assert found.returncode == code


def test_is_seen_as_a_real_start_is(tmp_path: Path) -> None:
    product = Live(tmp_path / "zun").start()
    try:
        assert isinstance(product.process, forks.Forked)
        process = psutil.Process(product.process.pid)
        words = [sys.executable, str(ZUN), "up", "--state-dir", str(tmp_path / "zun")]
        assert [word for word in process.cmdline() if word] == words
        assert (process.name(), process.cwd(), process.exe()) == ("zun", str(Path.cwd()), psutil.Process().exe())
        assert os.getsid(process.pid) == os.getpgid(process.pid) == process.pid
        told = {number: os.readlink(f"/proc/{process.pid}/fd/{number}") for number in range(3)}
        assert told == {0: os.devnull, 1: str(product.state.log_file), 2: str(product.state.log_file)}
    finally:
        product.stop()
    assert product.process.returncode == 0


def test_ends_as_it_is_told(tmp_path: Path) -> None:
    product = Live(tmp_path / "zun").start()
    process = product.process
    assert process is not None
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait(30) == process.poll() == process.returncode == -signal.SIGKILL
    process.terminate()  # no matter
    assert not psutil.pid_exists(process.pid)
    product.start()
    assert product.process is not None
    product.process.terminate()
    assert product.process.wait(60) == 0


def test_many_at_once() -> None:
    with open(os.devnull, "wb") as nothing:
        started = [forks.start([str(ZUN), "version"], stdout=nothing, stderr=nothing) for _ in range(20)]
    for number, process in enumerate(started):
        if number % 2:
            process.kill()
    assert {process.wait(60) for process in started} <= {0, -signal.SIGKILL}
    assert not [process.pid for process in started if psutil.pid_exists(process.pid)]


@pytest.mark.parametrize("name", ["PYTHONDEVMODE", "LC_ALL"])
def test_what_an_interpreter_reads_when_it_begins_makes_a_start_real(name: str) -> None:
    with open(os.devnull, "wb") as nothing:
        env = {**os.environ, name: "C"}
        process = forks.start([str(ZUN), "version"], stdout=nothing, stderr=nothing, env=env)
    assert isinstance(process, subprocess.Popen)
    assert process.wait(120) == 0


def test_the_loaded_process_ends_with_the_tests_and_what_it_started_stays(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SLEEPS, str(tmp_path / "zun")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout is not None
        product, loaded = (psutil.Process(int(word)) for word in tests.stdout.readline().split())
        tests.kill()
    try:
        wait_until(lambda: not loaded.is_running(), 60, "the loaded process ended")
        assert product.is_running()
        assert product.status() != psutil.STATUS_ZOMBIE
    finally:
        product.terminate()
        wait_until(lambda: not product.is_running() or product.status() == psutil.STATUS_ZOMBIE, 60, "it ended")
