"""Members on a real containerd: what they are given, and what holds them (S2.13, S2.14, S2.19)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.support.containerd import Containerd
from tests.support.pods import CriBench
from tests.support.wait import eventually
from zun.domain.errors import EngineError, EngineNotFound, StartFailed
from zun.domain.observed import HostMount
from zun.runtime.fingerprint import spec_hash


async def test_entrypoint_and_command(cri: CriBench) -> None:
    capsule = await cri.capsule()
    both = await cri.running(capsule, "and $0", "words", entrypoint=("echo", "entry"))
    assert await cri.logged(both, "words") == "entry and $0 words\n"
    found = await cri.seen(both)
    assert (found.entrypoint, found.command) == (("echo", "entry"), ("and $0", "words"))
    images_own = await cri.running(capsule, command=None)
    found = await cri.seen(images_own)
    assert (found.state, found.command) == ("running", ("sleep", "2147483647"))


async def test_environment_and_workdir(cri: CriBench) -> None:
    member = await cri.running(
        await cri.capsule(), environment={"GREETING": "hello = $HOME", "EMPTY": ""}, workdir="/var/www"
    )
    assert await cri.sh(member, 'echo "$GREETING,$EMPTY,${PATH:+path}"; pwd') == "hello = $HOME,,path\n/var/www"
    found = await cri.seen(member)
    assert found.environment["GREETING"] == "hello = $HOME"
    assert found.workdir == "/var/www"


async def test_mounts_are_shared_and_read_only_where_asked(cri: CriBench, tmp_path: Path) -> None:
    capsule = await cri.capsule()
    writer = await cri.running(capsule, mounts=(HostMount(str(tmp_path), "/data"),))
    reader = await cri.running(capsule, mounts=(HostMount(str(tmp_path), "/deep/data", read_only=True),))
    await cri.sh(writer, "echo shared > /data/file")
    assert await cri.sh(reader, "cat /deep/data/file") == "shared"
    assert (tmp_path / "file").read_text() == "shared\n"
    refused = await cri.pods.execute(reader, ["touch", "/deep/data/other"], 20)
    assert refused.exit_code != 0
    assert "Read-only file system" in refused.output


async def test_mount_of_what_is_not_there_is_refused(cri: CriBench, tmp_path: Path) -> None:
    capsule = await cri.capsule()
    with pytest.raises(EngineError, match=f"{tmp_path}/absent of /data does not exist"):
        await cri.created(capsule, mounts=(HostMount(f"{tmp_path}/absent", "/data"),))
    assert not (tmp_path / "absent").exists()
    assert not await cri.pods.list()


async def test_terminal_and_standard_input(cri: CriBench) -> None:
    capsule = await cri.capsule()
    terminal = await cri.running(capsule, "sh", "-c", "tty; sleep 1000", tty=True, stdin=True)
    assert "/dev/pts/0" in await cri.logged(terminal, "/dev/pts")
    waiting = await cri.running(capsule, "sh", "-c", "cat; echo ended", stdin=True)
    closed = await cri.running(capsule, "sh", "-c", "cat; echo ended")
    assert await cri.logged(closed, "ended") == "ended\n"
    assert (await cri.seen(waiting)).state == "running"


async def test_limits(cri: CriBench) -> None:
    capsule = await cri.capsule()
    member = await cri.running(
        capsule, cpu_millicores=300, memory_mib=40, swap_mib=24, pids=12, cpuset="1", memory_nodes="0"
    )
    shown = await cri.sh(
        member,
        "cd /sys/fs/cgroup; cat cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us cpu/cpu.shares memory/memory.limit_in_bytes"
        " memory/memory.memsw.limit_in_bytes cpuset/cpuset.cpus cpuset/cpuset.mems",
    )
    assert shown.split() == ["30000", "100000", "307", str(40 << 20), str(64 << 20), "1", "0"]


async def test_memory_without_swap_and_with_all_of_it(cri: CriBench) -> None:
    capsule = await cri.capsule()
    none = await cri.running(capsule, memory_mib=40)
    assert await cri.sh(none, "cat /sys/fs/cgroup/memory/memory.memsw.limit_in_bytes") == str(40 << 20)
    unlimited = await cri.running(capsule, memory_mib=40, swap_mib=-1)
    assert int(await cri.sh(unlimited, "cat /sys/fs/cgroup/memory/memory.memsw.limit_in_bytes")) > 1 << 60


async def test_number_of_processes_is_limited_for_each_member(cri: CriBench) -> None:
    capsule = await cri.capsule()
    limited = await cri.running(capsule, pids=10)
    free = await cri.running(capsule)
    forks = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 1000 >/dev/null 2>&1 & done; echo all"
    refused = await cri.pods.execute(limited, ["sh", "-c", forks], 20)
    assert "can't fork" in refused.output
    assert "all" in (await cri.pods.execute(free, ["sh", "-c", forks], 20)).output


async def test_too_much_memory_kills_the_member(cri: CriBench) -> None:
    member = await cri.running(await cri.capsule(), "tail", "/dev/zero", memory_mib=16)
    found = await cri.reaches(member, "exited", 60)
    assert (found.exit_code, found.oom_killed, found.error) == (137, True, "")


async def test_members_share_the_network_and_not_their_processes(cri: CriBench) -> None:
    capsule = await cri.capsule()
    first = await cri.running(capsule, "sh", "-c", "mkdir /w; echo hello > /w/index.html; exec httpd -f -p 80 -h /w")
    second = await cri.running(capsule)
    got = await eventually(
        lambda: _output(cri, second, "wget -q -O - http://127.0.0.1/"), 20, "the other member's page is read"
    )
    assert got == "hello\n"
    assert "httpd" not in await cri.sh(second, "ps")
    assert await cri.sh(first, "cat /proc/1/comm") == "httpd"


async def test_members_are_confined_as_dockers_are(cri: CriBench) -> None:
    member = await cri.running(await cri.capsule())
    assert await cri.sh(member, "grep -E '^(Seccomp|NoNewPrivs|CapEff):' /proc/1/status | sort") == (
        "CapEff:\t00000000a80425fb\nNoNewPrivs:\t0\nSeccomp:\t2"
    )
    for refused in ("echo 1 > /proc/sys/vm/drop_caches", "mount -t tmpfs none /tmp", "ls /sys/firmware | grep -q ."):
        assert (await cri.pods.execute(member, ["sh", "-c", refused], 20)).exit_code != 0, refused


async def test_privileged_member(cri: CriBench) -> None:
    capsule = await cri.capsule(privileged=True)
    member = await cri.running(capsule, privileged=True)
    beside = await cri.running(capsule)
    assert await cri.sh(member, "mount -t tmpfs none /tmp && grep '^Seccomp:' /proc/1/status") == "Seccomp:\t0"
    assert (await cri.pods.execute(beside, ["mount", "-t", "tmpfs", "none", "/tmp"], 20)).exit_code != 0


async def test_program_that_is_not_there_is_a_start_failure(cri: CriBench) -> None:
    member = await cri.created(await cri.capsule(), "/no/such/program")
    with pytest.raises(StartFailed, match=r"^CRI internal error: .*no such file or directory"):
        await cri.pods.start(member)
    found = await cri.seen(member)
    assert (found.state, found.exit_code, found.started_at) == ("exited", 128, None)
    assert "no such file or directory" in found.error


async def test_half_started_member_is_made_again_as_it_was(cri: CriBench, tmp_path: Path) -> None:
    """As an engine leaves it that is killed at that moment: its streams are gone."""
    spec = cri.member_spec(
        await cri.capsule(),
        *("sh", "-c", "echo $A; exec sleep 1000"),
        environment={"A": 'ü "quoted"'},
        pids=30,
        memory_mib=40,
        mounts=(HostMount(str(tmp_path), "/data", read_only=True),),
    )
    former = await cri.pods.create(spec)
    shutil.rmtree(cri.engine.root / "state" / "io.containerd.grpc.v1.cri" / "containers" / former / "io")
    await cri.pods.start(spec.uuid)
    found = await cri.seen(spec.uuid)
    assert (found.state, found.spec_hash, found.attempt) == ("running", spec_hash(spec), 0)
    assert found.engine_id != former
    assert await cri.logged(spec.uuid, "quoted") == 'ü "quoted"\n'
    assert f"/{spec.uuid}/{found.engine_id}" in await cri.sh(spec.uuid, "cat /proc/self/cgroup")
    assert await cri.sh(spec.uuid, "cat /sys/fs/cgroup/memory/memory.limit_in_bytes") == str(40 << 20)
    assert (await cri.pods.execute(spec.uuid, ["touch", "/data/x"], 20)).exit_code != 0


async def test_image_that_is_not_there_is_named(cri: CriBench) -> None:
    capsule = await cri.capsule()
    absent = f"sha256:{'0' * 64}"
    with pytest.raises(EngineError, match=absent) as caught:
        await cri.created(capsule, image=absent)
    assert not isinstance(caught.value, EngineNotFound)


async def test_grace_is_given_and_ends(cri: CriBench) -> None:
    capsule = await cri.capsule()
    polite = await cri.running(
        capsule, "sh", "-c", "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.1; done"
    )
    await cri.logged(polite, "ready")
    await cri.pods.stop(polite, 30)
    assert (await cri.seen(polite)).exit_code == 5
    assert await cri.log(polite) == "ready\nbye\n"
    deaf = await cri.running(capsule)  # number 1 of its processes, so TERM does nothing
    await cri.pods.stop(deaf, 1)
    assert (await cri.seen(deaf)).exit_code == 137


async def test_ten_members_of_one_capsule(cri: CriBench) -> None:
    capsule = await cri.capsule()
    members = await asyncio.gather(*(cri.running(capsule) for _ in range(10)))
    states = {one.uuid: one.state for one in await cri.pods.list()}
    assert states == dict.fromkeys(members, "running")


async def test_the_same_call_many_times_at_once_is_one(cri: CriBench) -> None:
    spec = cri.member_spec(await cri.capsule())
    assert len(set(await asyncio.gather(*(cri.pods.create(spec) for _ in range(4))))) == 1
    await asyncio.gather(*(cri.pods.start(spec.uuid) for _ in range(4)))
    await asyncio.gather(*(cri.pods.stop(spec.uuid, 0) for _ in range(4)))
    assert (await cri.seen(spec.uuid)).state == "exited"
    await asyncio.gather(*(cri.pods.remove(spec.uuid, force=True) for _ in range(4)))


async def test_names_of_others_are_left_alone(cri: CriBench, containerd: Containerd) -> None:
    """What somebody else runs on the same engine is neither listed nor touched."""
    member = await cri.running(await cri.capsule())
    containerd.ctr("run", "-d", "--net-host", cri.image, "foreign", "sleep", "1000")
    try:
        assert {one.uuid for one in await cri.pods.list()} == {member}
    finally:
        containerd.ctr("task", "rm", "-f", "foreign")
        containerd.ctr("container", "rm", "foreign")


async def _output(bench: CriBench, member: str, script: str) -> str:
    done = await bench.pods.execute(member, ["sh", "-c", script], 20)
    return done.output if done.exit_code == 0 else ""
