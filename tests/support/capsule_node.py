"""A product beside the testbed whose node has a containerd of its own and the CNI pair: capsules on Neutron's ports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support import forks
from tests.support.cloud_product import CloudProduct
from tests.support.cni import DAEMON
from tests.support.containerd import Containerd
from tests.support.namespaces import OVS_DATABASE, OVS_ENV, devices, ovs_ports
from tests.support.testbed import Testbed
from tests.support.testbed_project import Project
from tests.support.wait import wait_until
from zun.plumbing.handover import Handovers

PATIENCE = 8
"""Seconds until a port has to be ACTIVE."""
SLEEPS = "trap 'exit 0' TERM; sleep 3600 & wait"


class CapsuleNode:
    """A product whose node has a containerd and the CNI pair; ``project``'s user makes capsules."""

    def __init__(self, product: CloudProduct, containerd: Containerd, project: Project, folder: Path) -> None:
        self.product, self.containerd, self.project = product, containerd, project
        self.http = product.http(project.account)
        self.plugins = folder
        self.log = folder.with_name("cni-daemon.log")
        self._daemon: forks.Process | None = None

    @property
    def testbed(self) -> Testbed:
        return self.product.testbed

    def start(self) -> None:
        net, plugins = self.containerd.root / "net.d", self.plugins
        for path in net.iterdir():
            path.unlink()
        self.product.conf(
            network={"driver": "direct", "ovsdb_connection": OVS_DATABASE},
            cri={
                "endpoint": self.containerd.endpoint,
                "log_directory": self.containerd.logs,
                "cgroup_parent": self.containerd.groups,
            },
            cni_daemon={
                "socket": self.containerd.root / "cni.sock",
                "zun_cni_config_file": net / "10-zun-cni.conf",
                "vif_active_timeout": PATIENCE,
            },
        )
        self.product.prepare()
        words = ["--config-file", str(self.product.node.conf_file)]
        install = [*DAEMON, "install", "--bin-dir", str(plugins), *words]
        done = forks.run(install, env=OVS_ENV, timeout=60)
        assert done.returncode == 0, done.stderr
        self.containerd.start()
        with self.log.open("ab") as log:
            self._daemon = forks.start([*DAEMON, *words], stdout=log, stderr=log, env=OVS_ENV)
        wait_until((self.containerd.root / "cni.sock").is_socket, 60, "zun-cni-daemon listens")
        self.product.start()

    def create(self, script: str = SLEEPS, nets: list[dict[str, str]] | None = None, **more: Any) -> str:
        """A capsule of one container accepted (202)."""
        entry = {"image": "busybox", "command": ["sh", "-c", script], **more}
        spec = {"containers": [entry], **({"nets": nets} if nets else {})}
        return self.ask({"kind": "capsule", "metadata": {"name": "web"}, "spec": spec})

    def ask(self, template: dict[str, Any]) -> str:
        """The same for a whole template; the uuid."""
        answer = self.http.post("/v1/capsules", json={"template": template})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["uuid"])

    def show(self, uuid: str) -> dict[str, Any] | None:
        answer = self.http.get(f"/v1/capsules/{uuid}")
        return None if answer.status_code == 404 else dict(answer.json())

    def wait(self, uuid: str, *statuses: str) -> dict[str, Any]:
        wait_until(
            lambda: (self.show(uuid) or {}).get("status") in {*statuses, "Error"},
            90,
            f"{uuid} is {statuses}:\n{self.product.tail()}\n{self.log.read_text()[-2000:]}",
        )
        shown = self.show(uuid)
        assert shown is not None
        assert shown["status"] in statuses, f"{shown}\n{self.product.tail()}"
        return shown

    def taps(self, uuid: str) -> set[str]:
        return {f"tap{port['id'][:11]}" for port in self.testbed.ports(device_id=uuid)}

    def delete(self, *uuids: str) -> None:
        """Gone, with all they held."""
        taps = {tap for uuid in uuids for tap in self.taps(uuid)}
        for uuid in uuids:
            assert self.http.delete(f"/v1/capsules/{uuid}").status_code == 204
        for uuid in uuids:
            wait_until(lambda uuid=uuid: self.show(uuid) is None, 60, f"{uuid} is gone:\n{self.product.tail()}")  # type: ignore[misc]
        self.product.check_no_leak(*uuids)
        wait_until(lambda: not self.containerd.leftovers(), 60, f"no sandbox is left: {self.containerd.leftovers()}")
        assert not taps & (devices() | set(ovs_ports("br-int")))
        handovers = Handovers(str(self.product.node.sections["DEFAULT"]["state_path"]))
        assert handovers.capsules() == frozenset()

    def close(self) -> None:
        if self._daemon is not None:
            self._daemon.terminate()
            assert self._daemon.wait(30) == 0
