"""Docker's JSON to facts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from zun.runtime import docker_facts as facts

UUID = "fbfa7a65-adc1-449f-adc5-93da3768bb66"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-29T14:19:19.776661974Z", datetime(2026, 11, 29, 14, 19, 19, 776661)),
        ("2026-11-29T14:19:19.5Z", datetime(2026, 11, 29, 14, 19, 19, 500000)),
        ("2026-11-29T14:19:19Z", datetime(2026, 11, 29, 14, 19, 19)),
        ("2026-11-29T16:19:19.1+02:00", datetime(2026, 11, 29, 14, 19, 19, 100000)),
        ("2026-11-29T12:49:19-01:30", datetime(2026, 11, 29, 14, 19, 19)),
        ("0001-01-01T00:00:00Z", None),
        ("", None),
        (None, None),
        ("yesterday", None),
    ],
)
def test_times(text: str | None, expected: datetime | None) -> None:
    assert facts.parse_time(text) == expected


@pytest.mark.parametrize(
    ("name", "uuid"),
    [(f"/zun-{UUID}", UUID), (f"zun-{UUID}", UUID), ("/zun-web", None), (f"/my-zun-{UUID}", None), ("", None)],
)
def test_names_of_ours(name: str, uuid: str | None) -> None:
    assert facts.uuid_of(name) == uuid


def test_list_row() -> None:
    row: dict[str, Any] = {
        "Id": "e",
        "Names": [f"/zun-{UUID}"],
        "State": "paused",
        "Labels": {facts.OWNER_LABEL: "d/h"},
    }
    found = facts.observed_from_list(row)
    assert found is not None
    assert (found.uuid, found.engine_id, found.state, found.owner) == (UUID, "e", "paused", "d/h")
    assert facts.observed_from_list({**row, "Names": ["/foreign"]}) is None
    assert facts.observed_from_list({**row, "Names": None}) is None
    unknown = facts.observed_from_list({**row, "State": "levitating", "Labels": None})
    assert unknown is not None
    assert (unknown.state, unknown.owner) == ("unknown", "")


def test_inspect_form() -> None:
    found = facts.observed_from_inspect(
        UUID,
        {
            "Id": "e",
            "State": {
                "Status": "exited",
                "ExitCode": 137,
                "Error": "x",
                "OOMKilled": True,
                "StartedAt": "2026-11-29T14:19:19.776661974Z",
                "FinishedAt": "0001-01-01T00:00:00Z",
                "Health": {"Status": "unhealthy"},
            },
            "Config": {
                "Env": ["A=b=c", "EMPTY=", "BARE"],
                "Cmd": None,
                "Entrypoint": ["/e"],
                "WorkingDir": "",
                "ExposedPorts": {"80/tcp": {}, "53/udp": {}, "53/tcp": {}},
                "Labels": {facts.SPEC_LABEL: "hash"},
            },
        },
    )
    assert (found.state, found.exit_code, found.error, found.oom_killed) == ("exited", 137, "x", True)
    assert found.started_at == datetime(2026, 11, 29, 14, 19, 19, 776661)
    assert (found.finished_at, found.health, found.spec_hash) == (None, "unhealthy", "hash")
    assert found.environment == {"A": "b=c", "EMPTY": "", "BARE": ""}
    assert (found.command, found.entrypoint, found.workdir, found.ports) == ((), ("/e",), None, (53, 80))


MOUNTS = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 27 254:1 / /var/lib/docker rw,relatime - xfs /dev/vdb rw,attr2,prjquota
41 27 254:2 / /srv/with\\040space rw - xfs /dev/vdc rw,noquota
broken line
"""


@pytest.mark.parametrize(
    ("driver", "backing", "root", "mounts", "expected"),
    [
        ("btrfs", "", "/", None, True),
        ("zfs", "", "/", None, True),
        ("devicemapper", "", "/", None, True),
        ("overlay2", "xfs", "/var/lib/docker", MOUNTS, True),
        ("overlay2", "xfs", "/srv/with space/docker", MOUNTS, False),
        ("overlay2", "xfs", "/var/lib/docker", None, False),
        ("overlay2", "extfs", "/var/lib/docker", MOUNTS, False),
        ("overlay2", "xfs", "/var/lib/docker-other", MOUNTS, False),
        ("vfs", "xfs", "/var/lib/docker", MOUNTS, False),
    ],
)
def test_disk_quota(driver: str, backing: str, root: str, mounts: str | None, expected: bool) -> None:
    info = {"Driver": driver, "DriverStatus": [["Backing Filesystem", backing]], "DockerRootDir": root}
    assert facts.disk_quota(info, mounts) is expected


def sample(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "read": "2026-11-29T14:19:19Z",
        "cpu_stats": {"cpu_usage": {"total_usage": 300}, "system_cpu_usage": 2000, "online_cpus": 4},
        "precpu_stats": {"cpu_usage": {"total_usage": 200}, "system_cpu_usage": 1000},
        "memory_stats": {"usage": 10 << 20, "limit": 64 << 20, "stats": {"total_inactive_file": 2 << 20}},
        "blkio_stats": {"io_service_bytes_recursive": [{"op": "Read", "value": 5}, {"op": "write", "value": 7}]},
        "networks": {"eth0": {"rx_bytes": 1, "tx_bytes": 2}, "eth1": {"rx_bytes": 10, "tx_bytes": 20}},
    }
    return base | changes


def test_stats() -> None:
    found = facts.stats(sample())
    assert found is not None
    assert (found.cpu_percent, found.memory_usage_mib, found.memory_limit_mib) == (40.0, 8.0, 64.0)
    assert (found.block_read, found.block_write, found.net_rx, found.net_tx) == (5, 7, 11, 22)


def test_stats_with_gaps() -> None:
    found = facts.stats(sample(networks=None, blkio_stats={"io_service_bytes_recursive": None}, precpu_stats={}))
    assert found is not None
    assert (found.cpu_percent, found.net_rx, found.block_read) == (0.0, 0, 0)
    assert facts.stats({"read": "0001-01-01T00:00:00Z"}) is None


def test_engine_info_needs_little() -> None:
    found = facts.engine_info(
        {"NCPU": 2, "MemTotal": 3 << 30, "Labels": ["a=b"], "Runtimes": {"runc": {}}}, quota=False
    )
    assert (found.cpus, found.memory_mib, dict(found.labels), found.runtimes) == (2, 3072, {"a": "b"}, ("runc",))
