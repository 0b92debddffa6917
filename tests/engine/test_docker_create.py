"""What Docker really set up for an EngineSpec: seen by inspect, in the cgroups and from inside."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.runtimes import DockerBench
from tests.support.wait import wait_until
from zun.domain.errors import EngineConflict, StartFailed
from zun.domain.observed import HealthCheck, HostMount

MIB = 1024 * 1024
CGROUPS = Path("/sys/fs/cgroup")


def cgroup_value(pid: int, controller: str, old: str, new: str) -> str:
    """The content of a limit's file, of cgroup v1 (``old``) or v2 (``new``)."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return (CGROUPS / controller / path.lstrip("/") / old).read_text().strip()
        if not names:
            unified = CGROUPS / path.lstrip("/") / new
            if unified.exists():
                return unified.read_text().strip()
    raise AssertionError(f"no cgroup of {controller} for {pid}")


async def test_limits_are_in_force_in_the_cgroups(docker: DockerBench) -> None:
    uuid = await docker.running(cpu_millicores=250, memory_mib=64, swap_mib=0, pids=77)
    facts = docker.inspected(uuid)
    host, pid = facts["HostConfig"], facts["State"]["Pid"]
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (64 * MIB, 64 * MIB, 77)
    assert (host["CpuQuota"], host["CpuPeriod"], host["CpuShares"]) == (25_000, 100_000, 256)
    assert cgroup_value(pid, "memory", "memory.limit_in_bytes", "memory.max") == str(64 * MIB)
    assert cgroup_value(pid, "cpu", "cpu.cfs_quota_us", "cpu.max").split()[0] == "25000"
    assert cgroup_value(pid, "pids", "pids.max", "pids.max") == "77"


async def test_more_cores_than_the_host_has_are_no_error(docker: DockerBench) -> None:
    uuid = await docker.running(cpu_millicores=64_000)
    assert docker.inspected(uuid)["HostConfig"]["CpuQuota"] == 6_400_000


async def test_swap_is_bounded_or_unlimited(docker: DockerBench) -> None:
    bounded = await docker.created(memory_mib=32, swap_mib=16)
    unlimited = await docker.created(memory_mib=32, swap_mib=-1)
    assert docker.inspected(bounded)["HostConfig"]["MemorySwap"] == 48 * MIB
    assert docker.inspected(unlimited)["HostConfig"]["MemorySwap"] == -1


async def test_update_keeps_swap_consistent_up_and_down(docker: DockerBench) -> None:
    uuid = await docker.running(memory_mib=64, swap_mib=8, cpu_millicores=100)
    for memory in (128, 32):
        await docker.runtime.update(uuid, cpu_millicores=500, memory_mib=memory, swap_mib=8)
        facts = docker.inspected(uuid)
        host, pid = facts["HostConfig"], facts["State"]["Pid"]
        assert (host["Memory"], host["MemorySwap"]) == (memory * MIB, (memory + 8) * MIB)
        assert (host["CpuQuota"], host["CpuShares"]) == (50_000, 512)
        assert cgroup_value(pid, "memory", "memory.limit_in_bytes", "memory.max") == str(memory * MIB)
    await docker.runtime.update(uuid, cpu_millicores=0, memory_mib=None, swap_mib=0)
    assert docker.inspected(uuid)["HostConfig"]["CpuQuota"] == -1


async def test_labels_of_ours_cannot_be_overridden(docker: DockerBench) -> None:
    labels = {"team": "x", "org.openstack.zun.owner": "evil", "org.openstack.zun.uuid": "evil"}
    spec = docker.spec(labels=labels)
    await docker.runtime.create(spec)
    found = docker.inspected(spec.uuid)["Config"]["Labels"]
    assert found["team"] == "x"
    assert found["org.openstack.zun.owner"] == docker.owner
    assert found["org.openstack.zun.uuid"] == spec.uuid
    assert found["org.openstack.zun.name"] == "a-name"
    assert len(found["org.openstack.zun.spec"]) == 40


async def test_fields_reach_the_engine(docker: DockerBench) -> None:
    uuid = await docker.created(
        entrypoint=["/bin/sh", "-c"],
        command=["sleep 9"],
        tty=True,
        stdin=True,
        privileged=True,
        restart_name="on-failure",
        restart_count=4,
        runtime="runc",
        healthcheck=HealthCheck("true", interval=7, timeout=3, retries=2),
    )
    facts = docker.inspected(uuid)
    config, host = facts["Config"], facts["HostConfig"]
    assert (config["Entrypoint"], config["Cmd"]) == (["/bin/sh", "-c"], ["sleep 9"])
    assert (config["Tty"], config["OpenStdin"], host["Privileged"]) == (True, True, True)
    assert host["RestartPolicy"] == {"Name": "on-failure", "MaximumRetryCount": 4}
    assert host["LogConfig"] == {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "3"}}
    assert config["Healthcheck"] == {
        "Test": ["CMD-SHELL", "true"],
        "Interval": 7_000_000_000,
        "Timeout": 3_000_000_000,
        "Retries": 2,
    }
    assert (host["NetworkMode"], host["Runtime"], host["Init"]) == ("none", "runc", False)


async def test_health_becomes_known(docker: DockerBench) -> None:
    uuid = await docker.running(healthcheck=HealthCheck("true", interval=1, timeout=5, retries=1))
    wait_until(lambda: docker.inspected(uuid)["State"]["Health"]["Status"] == "healthy", 60, "healthy")
    found = await docker.runtime.inspect(uuid)
    assert found is not None
    assert found.health == "healthy"


async def test_mounts_are_readable_and_read_only_where_asked(docker: DockerBench, tmp_path: Path) -> None:
    (tmp_path / "ro").mkdir()
    (tmp_path / "rw").mkdir()
    (tmp_path / "ro" / "file").write_text("content")
    mounts = [HostMount(str(tmp_path / "ro"), "/ro", True), HostMount(str(tmp_path / "rw"), "/rw")]
    uuid = await docker.running(mounts=mounts)
    read = await docker.runtime.execute(uuid, ["cat", "/ro/file"], 60)
    assert read.output == "content"
    refused = await docker.runtime.execute(uuid, ["touch", "/ro/new"], 60)
    assert refused.exit_code != 0
    assert "Read-only" in refused.output
    await docker.runtime.execute(uuid, ["sh", "-c", "echo kept > /rw/new"], 60)
    assert (tmp_path / "rw" / "new").read_text() == "kept\n"


async def test_start_of_a_missing_program_is_start_failed(docker: DockerBench) -> None:
    uuid = await docker.created(command=["/no/such/%d/program"])
    with pytest.raises(StartFailed, match="no such file or directory") as caught:
        await docker.runtime.start(uuid)
    assert caught.value.keeps_host
    assert "%d" in caught.value.message
    with pytest.raises(StartFailed):
        await docker.runtime.reboot(uuid, 0)


async def test_start_of_a_paused_container_is_a_conflict(docker: DockerBench) -> None:
    uuid = await docker.running()
    await docker.runtime.pause(uuid)
    with pytest.raises(EngineConflict, match="paused"):
        await docker.runtime.start(uuid)
    with pytest.raises(EngineConflict, match="paused"):
        await docker.runtime.execute(uuid, ["true"], 5)


async def test_owner_of_a_foreign_container_of_our_name_is_respected(docker: DockerBench) -> None:
    spec = docker.spec()
    body = {"Image": docker.image, "Cmd": ["sleep", "3600"]}
    docker.engine.post("/containers/create", body, name=spec.engine_name)
    try:
        with pytest.raises(EngineConflict, match="nobody known"):
            await docker.runtime.create(spec)
        assert docker.inspected(spec.uuid)["Config"]["Labels"] in (None, {})
    finally:
        docker.engine.remove(spec.engine_name)


async def test_anonymous_volumes_go_with_the_container(docker: DockerBench) -> None:
    spec = docker.spec()
    labels = {"org.openstack.zun.owner": docker.owner}
    body = {"Image": docker.image, "Cmd": ["true"], "Volumes": {"/data": {}}, "Labels": labels}
    docker.engine.post("/containers/create", body, name=spec.engine_name)
    volume = docker.inspected(spec.uuid)["Mounts"][0]["Name"]
    await docker.runtime.remove(spec.uuid, force=False)
    filters = json.dumps({"name": [volume]})
    assert not docker.engine.get("/volumes", filters=filters)["Volumes"]


async def test_disk_limit_is_refused_where_the_driver_cannot(docker: DockerBench) -> None:
    info = await docker.runtime.info()
    spec = docker.spec(disk_gib=1)
    if info.disk_quota_supported:
        await docker.runtime.create(spec)
        assert docker.inspected(spec.uuid)["HostConfig"]["StorageOpt"] == {"size": "1G"}
    else:
        with pytest.raises(Exception, match="storage"):
            await docker.runtime.create(replace(spec))
