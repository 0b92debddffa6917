"""Logs and commands on the real engine."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.support.runtimes import DockerBench
from tests.support.wait import eventually, wait_until
from zun.domain.errors import EngineConflict
from zun.runtime.docker_streams import KEPT


async def written(docker: DockerBench, script: str, **fields: object) -> str:
    """A container that ran ``script`` to its end."""
    uuid = await docker.running(command=["sh", "-c", script], **fields)
    await docker.reaches(uuid, "exited", 60)
    return uuid


async def test_streams_apart_and_together(docker: DockerBench) -> None:
    script = "echo one; sleep 1; echo two >&2; sleep 1; echo three"  # the engine reads each stream on its own
    uuid = await written(docker, script)
    logs = docker.runtime.logs
    together = await logs(uuid, stdout=True, stderr=True, timestamps=False, tail=None, since=None)
    assert together == "one\ntwo\nthree\n"
    assert await logs(uuid, stdout=False, stderr=True, timestamps=False, tail=None, since=None) == "two\n"
    assert await logs(uuid, stdout=True, stderr=False, timestamps=False, tail=1, since=None) == "three\n"
    assert await logs(uuid, stdout=False, stderr=False, timestamps=False, tail=None, since=None) == ""
    stamped = await logs(uuid, stdout=True, stderr=True, timestamps=True, tail=1, since=None)
    assert stamped[:2] == "20"
    assert stamped.endswith("Z three\n")


async def test_since_leaves_out_what_is_older(docker: DockerBench) -> None:
    uuid = await written(docker, "echo old")
    logs = docker.runtime.logs
    now = time.time()
    assert await logs(uuid, stdout=True, stderr=True, timestamps=False, tail=None, since=now + 1) == ""
    assert await logs(uuid, stdout=True, stderr=True, timestamps=False, tail=None, since=now - 60) == "old\n"


async def test_terminal_has_one_stream(docker: DockerBench) -> None:
    uuid = await written(docker, "echo out; echo err >&2", tty=True)
    text = await docker.runtime.logs(uuid, stdout=True, stderr=True, timestamps=False, tail=None, since=None)
    assert text == "out\r\nerr\r\n"


async def test_log_of_a_container_that_never_ran_is_empty(docker: DockerBench) -> None:
    uuid = await docker.created()
    assert await docker.runtime.logs(uuid, stdout=True, stderr=True, timestamps=False, tail=None, since=None) == ""


async def test_long_log_keeps_the_newest(docker: DockerBench) -> None:
    uuid = await written(docker, "seq 1 300000")
    text = await docker.runtime.logs(uuid, stdout=True, stderr=True, timestamps=False, tail=None, since=None)
    assert KEPT - 16 < len(text) <= KEPT
    lines = text.splitlines()
    assert lines[-1] == "300000"
    assert [int(line) for line in lines] == list(range(int(lines[0]), 300001))


async def test_long_output_of_a_command_keeps_the_newest(docker: DockerBench) -> None:
    uuid = await docker.running()
    result = await docker.runtime.execute(uuid, ["sh", "-c", "seq 1 300000; exit 7"], 60)
    assert (result.exit_code, result.output.splitlines()[-1]) == (7, "300000")
    assert len(result.output) <= KEPT


async def test_invalid_bytes_are_replaced(docker: DockerBench) -> None:
    uuid = await docker.running()
    result = await docker.runtime.execute(uuid, ["printf", "a\\377b"], 60)
    assert result.output == "a\ufffdb"


async def test_command_beyond_its_limit_is_ended_with_its_children(docker: DockerBench) -> None:
    uuid = await docker.running()
    with pytest.raises(EngineConflict, match=r"0\.5 seconds"):
        await docker.runtime.execute(uuid, ["sh", "-c", "sleep 7771 & sleep 7772; true"], 0.5)

    def left() -> list[str]:
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
                except OSError:
                    continue
        return [line for line in found if line.startswith(("sleep 7771", "sleep 7772"))]

    wait_until(lambda: not left(), 30, f"the command's processes ended: {left()}")
    assert (await docker.reaches(uuid, "running")).state == "running"


async def test_command_that_closed_its_output_is_waited_for(docker: DockerBench) -> None:
    uuid = await docker.running()
    result = await docker.runtime.execute(uuid, ["sh", "-c", "exec >&- 2>&-; usleep 400000; exit 5"], 60)
    assert (result.output, result.exit_code) == ("", 5)


async def test_cancelled_command_is_ended(docker: DockerBench) -> None:
    uuid = await docker.running()
    task = asyncio.create_task(docker.runtime.execute(uuid, ["sleep", "8881"], 60))

    async def rows() -> int:
        found = await docker.runtime.top(uuid, None)
        return sum("sleep 8881" in " ".join(row) for row in found["Processes"])

    async def started() -> bool:
        return await rows() == 1

    async def ended() -> bool:
        return await rows() == 0

    await eventually(started, 30, "the command runs")  # type: ignore[arg-type]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(ended, 30, "the command ended")  # type: ignore[arg-type]


async def test_cpu_of_a_busy_container_is_measured(docker: DockerBench) -> None:
    uuid = await docker.running(command=["sh", "-c", "while true; do :; done"], cpu_millicores=500)

    async def percent() -> float:
        return (await docker.runtime.stats(uuid)).cpu_percent

    async def busy() -> bool:  # it may have begun within the first sample
        return await percent() > 10

    await eventually(busy, 60, "it is busy")
    assert await percent() < 100
