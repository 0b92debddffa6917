"""The Cinder adapter as one node's agent has it, on the testbed's Cinder; and what Cinder and the kernel say of it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.support.database import make_database
from tests.support.testbed import FOLDER, OWN_ACCOUNT, Account, Testbed
from tests.support.testbed_project import Project
from tests.support.wait import wait_until
from zun import conf as zun_conf
from zun.domain.caller import Caller
from zun.domain.clock import SystemClock
from zun.domain.container import VolumeMapping
from zun.openstack.cloud import OpenStack
from zun.store.database import Database
from zun.volume.brick import Brick
from zun.volume.cinder import CinderVolumes
from zun.volume.mounts import source_of


def make_conf(folder: Path, host: str = "node", **options: Any) -> Any:
    """As an operator writes it; ``volume__fstype="xfs"`` sets [volume]/fstype."""
    sections: dict[str, dict[str, Any]] = {"DEFAULT": {"host": host, "state_path": folder / host}}
    for name, value in options.items():
        section, _, option = name.partition("__")
        sections.setdefault(section, {})[option] = value
    text = "".join(f"[{s}]\n" + "".join(f"{k} = {v}\n" for k, v in o.items()) for s, o in sections.items())
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{host}.conf"
    path.write_text(text + OWN_ACCOUNT)
    return zun_conf.load(["--config-file", str(path)])


class CinderNode:
    """``volumes`` is the adapter; the rest looks from outside."""

    def __init__(self, conf: Any, db: Database, cloud: OpenStack, project: Project, testbed: Testbed) -> None:
        self.conf, self.db, self.project, self.testbed = conf, db, project, testbed
        self.cloud = cloud
        self.volumes = CinderVolumes(db, conf, cloud.cinder)
        self.mounts = Path(conf.volume.volume_dir)

    @property
    def caller(self) -> Caller:
        return caller_of(self.project.account)

    def mapping(self, volume_id: str | None, container: str | None = None, **named: Any) -> VolumeMapping:
        return VolumeMapping(
            uuid=str(uuid4()),
            container_uuid=container or str(uuid4()),
            project_id=self.project.id,
            user_id=self.project.account.user_id,
            kind="volume",
            driver="cinder",
            destination="/data",
            volume_id=volume_id,
            **named,
        )

    def target(self, mapping: VolumeMapping) -> Path:
        return self.mounts / mapping.uuid

    def is_mounted(self, mapping: VolumeMapping) -> bool:
        return source_of(self.target(mapping)) is not None

    @property
    def brick(self) -> Brick:
        """For tests that break it."""
        return self.volumes._node._brick

    def forget(self, mapping: VolumeMapping) -> None:
        """As if the node's own files had been lost."""
        self.volumes._node._connections.remove(mapping.uuid)

    def entries(self) -> list[str]:
        """What is left below volume_dir, the adapter's own files included."""
        if not self.mounts.is_dir():
            return []
        return sorted(str(path.relative_to(self.mounts)) for path in self.mounts.rglob("*") if path.name != ".cinder")


def caller_of(account: Account) -> Caller:
    return Caller(user_id=account.user_id, project_id=account.project_id, token=account.token)


def now() -> datetime:
    return SystemClock().now()


@contextlib.asynccontextmanager
async def cinder_node(
    folder: Path, project: Project, testbed: Testbed, host: str = "node", **options: Any
) -> AsyncIterator[CinderNode]:
    """An agent's adapter with records of its own; ended as a process that is told to stop ends."""
    conf = make_conf(folder, host, **options)
    (folder / f"db-{host}").mkdir(parents=True, exist_ok=True)
    db = await make_database(folder / f"db-{host}")
    cloud = OpenStack(conf)
    node = CinderNode(conf, db, cloud, project, testbed)
    try:
        yield node
    finally:
        await node.volumes.close()
        await cloud.close()
        await db.close()


# -- Cinder, behind the product's back -----------------------------------------------------------------


def make_volume(project: Project, name: str = "test", *, size: int = 1, **fields: Any) -> str:
    """A volume of the project's user, available."""
    body = {"volume": {"name": name, "size": size, **fields}}
    made = str(project.account.call("volumev3", "POST", "/volumes", json=body)["volume"]["id"])
    wait_status(project.testbed, made, "available")
    return made


def wait_status(testbed: Testbed, volume_id: str, *wanted: str) -> dict[str, Any]:
    """The volume once its status is one of these."""
    wait_until(lambda: (testbed.volume(volume_id) or {}).get("status") in wanted, 60, f"{volume_id} is {wanted}")
    return testbed.volume(volume_id) or {}


def set_status(testbed: Testbed, volume_id: str, status: str, **more: str) -> None:
    """As an administrator does it by hand."""
    body = {"os-reset_status": {"status": status, **more}}
    testbed.admin.call("volumev3", "POST", f"/volumes/{volume_id}/action", json=body)


def attachments(testbed: Testbed, volume_id: str) -> list[dict[str, Any]]:
    """All holds on a volume, reserved ones too."""
    params = {"volume_id": volume_id, "all_tenants": "1"}
    return list(testbed.admin.call("volumev3", "GET", "/attachments", params=params)["attachments"])


def volume_file(volume_id: str) -> Path:
    """What the testbed's storage keeps of a volume."""
    return FOLDER / "cinder" / "volumes" / f"volume-{volume_id}"


def loops(volume_id: str) -> list[str]:
    """Loop devices over a volume: there while Cinder has a connection open."""
    command = ["losetup", "-j", str(volume_file(volume_id)), "-n", "-O", "NAME"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def multiattach_type(testbed: Testbed) -> str:
    """A volume type of its own; ``remove_type`` takes it away."""
    body = {"volume_type": {"name": f"zun-test-{uuid4()}", "extra_specs": {"multiattach": "<is> True"}}}
    return str(testbed.admin.call("volumev3", "POST", "/types", json=body)["volume_type"]["id"])


def remove_type(testbed: Testbed, type_id: str) -> None:
    testbed.admin.call("volumev3", "DELETE", f"/types/{type_id}", absent_ok=True)


def mounted_type(target: str) -> str:
    """The file system mounted there."""
    lines = [line.partition(" - ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return next(after.split()[0] for before, _, after in lines if before.split()[4] == target)


def reboot(volume_id: str, target: str) -> None:
    """What a reboot of the machine does to a mounted volume: neither mount nor device is there any more."""
    subprocess.run(["umount", target], check=True)
    remove_loops(volume_id)


def remove_loops(volume_id: str) -> None:
    """Behind Cinder's back."""
    for device in loops(volume_id):
        subprocess.run(["losetup", "-d", device], check=True)


def volume_mounts() -> list[str]:
    """Where devices of volumes are mounted, whoever did it."""
    fields = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [field[1] for field in fields if field[0].startswith("/dev/loop")]


@contextlib.contextmanager
def other_namespace(kept: str) -> Iterator[None]:
    """A process that keeps what is mounted on ``kept``, whatever is unmounted here; no other test's volumes."""
    others = [where for where in volume_mounts() if where != kept]
    script = 'for one in "$@"; do umount --lazy "$one"; done; echo in; exec sleep 600'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *others]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


# -- files, from async tests ---------------------------------------------------------------------------


def write(folder: str | Path, name: str, text: str = "data") -> None:
    Path(folder, name).write_text(text)


def read(folder: str | Path, name: str) -> str:
    return Path(folder, name).read_text()
