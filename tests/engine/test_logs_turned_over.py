"""Logs that are followed at the node while the engine, or we, turn their small files over."""

from __future__ import annotations

import pytest

from tests.support.log_follower import NodeFollower
from tests.support.pods import CriBench
from tests.support.runtimes import DockerBench
from zun.runtime import docker_spec
from zun.runtime.cri.log_turning import LogTurning


async def test_json_files_of_docker(docker: DockerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(docker_spec.LOG, "Config", {"max-size": "20k", "max-file": "3"})
    uuid = await docker.running()
    follower = NodeFollower(uuid, runtime=docker.runtime)
    follower.begin()
    try:
        for batch in range(20):
            script = f"i=0; while [ $i -lt 100 ]; do echo {batch} $i > /proc/1/fd/1; i=$((i+1)); done"
            done = await docker.runtime.execute(uuid, ["sh", "-c", script], 60)
            assert done.exit_code == 0, done.output
            await follower.has((batch + 1) * 100)
            if batch % 5 == 4:
                await follower.restart()
        await docker.crash(uuid)
        await docker.reaches(uuid, "exited")
    finally:
        await follower.stop()
    assert follower.lines == [f"{batch} {number}" for batch in range(20) for number in range(100)]
    assert follower.lost == 0
    kept = await docker.runtime.logs(uuid, stdout=True, stderr=True, timestamps=False, tail=None, since=None)
    assert "0 0\n" not in kept, "what came first was turned over long ago"


async def test_files_of_containerd(cri: CriBench) -> None:
    member = await cri.running(await cri.capsule())
    turning = LogTurning(cri.pods._client, cri.pods._log_files, 100, 3)
    follower = NodeFollower(member, pods=cri.pods)
    follower.begin()
    try:
        for batch in range(8):
            await cri.write(member, "".join(f"{batch} {number}\n" for number in range(20)))
            await turning.turn()
            await cri.write(member, "".join(f"{batch} {number}\n" for number in range(20, 40)))
            await follower.has((batch + 1) * 40)
            if batch % 3 == 2:
                await follower.restart()
    finally:
        await follower.stop()
    assert follower.lines == [f"{batch} {number}" for batch in range(8) for number in range(40)]
    assert follower.lost == 0


async def test_bytes_that_are_no_text(cri: CriBench) -> None:
    member = await cri.running(await cri.capsule(), "sh", "-c", "printf 'a\\377b\\n'; exec sleep 3600")
    await cri.logged(member, "b")
    (batch,) = [batch async for batch in cri.pods.log_records(member, None)]
    assert [one.data for one in batch] == [b"a\xffb"]
    follower = NodeFollower(member, pods=cri.pods)
    follower.begin()
    try:
        await follower.has(1)
    finally:
        await follower.stop()
    assert follower.lines == ["a\ufffdb"]
