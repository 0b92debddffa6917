"""What members write and what commands in them give, on a real containerd."""

from __future__ import annotations

import socket
from dataclasses import replace

import psutil
import pytest

from tests.support.pods import CriBench
from tests.support.wait import eventually
from zun.domain.errors import EngineConflict
from zun.runtime.cri.log_turning import LogTurning
from zun.runtime.docker_streams import KEPT


async def test_long_lines_are_whole(cri: CriBench) -> None:
    script = (
        "head -c 50000 /dev/zero | tr '\\0' a; echo; echo short; head -c 20000 /dev/zero | tr '\\0' b >&2; echo end"
    )
    member = await cri.running(await cri.capsule(), "sh", "-c", script)
    await cri.reaches(member, "exited")
    await cri.logged(member, "end")
    assert (await cri.log(member, stderr=False)).split("\n") == ["a" * 50000, "short", "end", ""]
    assert await cri.log(member, stdout=False) == "b" * 20000
    assert await cri.log(member, tail=1, stderr=False) == "end\n"


async def test_log_of_all_attempts_is_kept_until_the_sandbox_goes(cri: CriBench) -> None:
    spec = cri.member_spec(await cri.capsule(), "sh", "-c", "echo attempt; exit 1")
    for attempt in range(3):
        await cri.pods.create(replace(spec, attempt=attempt, command=("sh", "-c", f"echo attempt {attempt}; exit 1")))
        await cri.pods.start(spec.uuid)
        await cri.reaches(spec.uuid, "exited")
    await cri.logged(spec.uuid, "attempt 2")
    await cri.pods.remove(spec.uuid, force=False)
    assert await cri.log(spec.uuid) == "attempt 0\nattempt 1\nattempt 2\n"
    assert await cri.log(spec.uuid, tail=2) == "attempt 1\nattempt 2\n"


async def test_log_is_the_newest_mebibyte(cri: CriBench) -> None:
    script = (
        'i=0; while [ $i -lt 30000 ]; do echo "$i .................................................."; i=$((i+1)); done'
    )
    member = await cri.running(await cri.capsule(), "sh", "-c", script)
    await cri.reaches(member, "exited", 60)
    text = await cri.logged(member, "29999 ")
    assert KEPT - 100 < len(text) <= KEPT
    lines = text.splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(30000 - len(lines), 30000))


async def test_log_that_grew_is_turned_over_and_read_on(cri: CriBench) -> None:
    member = await cri.running(await cri.capsule())
    turning = LogTurning(cri.pods._client, cri.pods._log_files, 100, 2)
    for number in range(3):
        await cri.write(member, f"line {number} {'.' * 100}\n")
        await cri.logged(member, f"line {number}")
        assert await turning.turn() == 1
    assert await turning.turn() == 0
    await cri.write(member, "last\n")
    text = await cri.logged(member, "last")
    assert [line.split(" .")[0] for line in text.splitlines()] == ["line 2", "last"]
    assert [path.name for path in cri.pods._log_files.of(member) or ()] == ["0.log", "0.log.1"]


async def test_turned_over_log_that_the_engine_did_not_hear_of_is_opened_again(cri: CriBench) -> None:
    member = await cri.running(await cri.capsule())
    await cri.write(member, "before\n")
    await cri.logged(member, "before")
    path = (cri.pods._log_files.of(member) or ())[0]
    path.rename(f"{path}.1")
    assert await LogTurning(cri.pods._client, cri.pods._log_files, 1 << 20, 3).turn() == 1
    await cri.write(member, "after\n")
    assert await cri.logged(member, "after") == "before\nafter\n"
    assert path.exists()


async def test_large_output_of_a_command_is_bounded(cri: CriBench) -> None:
    member = await cri.running(await cri.capsule())
    done = await cri.pods.execute(member, ["sh", "-c", "head -c 8000000 /dev/zero | tr '\\0' x; echo; echo end"], 60)
    assert done.exit_code == 0
    assert done.output.endswith("end\n")
    assert len(done.output) <= KEPT


async def test_output_beyond_what_the_engine_passes_on_is_told(cri: CriBench) -> None:
    member = await cri.running(await cri.capsule())
    with pytest.raises(EngineConflict, match="written more than the engine passes on"):
        await cri.pods.execute(member, ["sh", "-c", "head -c 40000000 /dev/zero"], 60)
    assert await cri.sh(member, "echo on") == "on"


async def test_both_streams_and_broken_text(cri: CriBench) -> None:
    member = await cri.running(await cri.capsule())
    done = await cri.pods.execute(member, ["sh", "-c", "echo err >&2; printf 'out \\377\\n'; exit 9"], 20)
    assert (done.output, done.exit_code) == ("out \ufffd\nerr\n", 9)


@pytest.mark.parametrize(("command", "code"), [(["no-such-program"], 127), (["/etc"], 126)])
async def test_what_is_no_program_says_so_as_a_shell_does(cri: CriBench, command: list[str], code: int) -> None:
    member = await cri.running(await cri.capsule())
    done = await cri.pods.execute(member, command, 20)
    assert done.exit_code == code
    assert command[0] in done.output


async def test_command_that_takes_too_long_is_ended_with_its_children(cri: CriBench) -> None:
    member = await cri.running(await cri.capsule())
    other = "sleep 77001 & sleep 77002; true"
    with pytest.raises(EngineConflict, match="longer than the limit of 1 seconds"):
        await cri.pods.execute(member, ["sh", "-c", other], 1)
    await eventually(lambda: not _sleeping("77001") and not _sleeping("77002"), 10, "the command's processes are gone")
    assert (await cri.seen(member)).state == "running"
    assert await cri.sh(member, "echo on") == "on"


async def test_end_of_one_command_leaves_others_alone(cri: CriBench) -> None:
    member = await cri.running(await cri.capsule())
    await cri.sh(member, "(sleep 77003 >/dev/null 2>&1 &)")
    with pytest.raises(EngineConflict, match="longer than the limit"):
        await cri.pods.execute(member, ["sh", "-c", "sleep 77004; true"], 1)
    assert _sleeping("77003")
    await eventually(lambda: not _sleeping("77004"), 10, "the command's process is gone")


async def test_use_is_measured(cri: CriBench) -> None:
    capsule = await cri.capsule()
    busy = await cri.running(capsule, "sh", "-c", "while :; do :; done", cpu_millicores=300)
    idle = await cri.running(capsule)
    found = await cri.pods.stats(busy)
    assert 1 < found.cpu_percent < 60  # of a core, of which it has 30 %; a busy machine gives it less
    assert (await cri.pods.stats(idle)).cpu_percent < 5
    box = await cri.box(capsule)
    await cri.sh(idle, "head -c 3000000 /dev/zero > /tmp/file; sync")
    assert (await cri.pods.stats(idle)).block_write >= 0
    before = (await cri.pods.stats(idle)).net_rx
    await _send(box.addresses[0])
    assert (await cri.pods.stats(busy)).net_rx > before
    limited = await cri.pods.stats(await cri.running(capsule, memory_mib=24))
    assert limited.memory_limit_mib == 24


def _sleeping(seconds: str) -> bool:
    for process in psutil.process_iter():
        try:
            if process.cmdline()[-2:] == ["sleep", seconds] and process.status() != psutil.STATUS_ZOMBIE:
                return True
        except psutil.Error:
            continue
    return False


async def _send(address: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(10):
            sender.sendto(b"x" * 1000, (address, 9))
