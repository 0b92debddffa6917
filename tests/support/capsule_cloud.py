"""The product with a containerd of its own and the CNI pair: capsules as a user has them on one machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.support import forks
from tests.support.cni import DAEMON
from tests.support.containerd import PAUSE_IMAGE, Containerd
from tests.support.engine import Engine
from tests.support.namespaces import OVS_ENV
from tests.support.product import Product
from tests.support.wait import wait_until
from zun.plumbing.handover import Handovers
from zun.runtime.cri.adapter import CriPods

SERVES = "trap 'exit 0' TERM; while :; do nc -lp {port} -e echo {text}; done & wait"
"""A program that answers TCP and ends on TERM."""
SLEEPS = "trap 'exit 0' TERM; sleep 3600 & wait"


class CapsuleCloud:
    """Not started until ``start``. ``close`` ends everything and proves that nothing is left."""

    image = PAUSE_IMAGE
    """A busybox in the engine; with ``imagePullPolicy: ifnotpresent``, which is the administrator's to choose."""
    _http: tuple[int, httpx.Client] | None = None

    def __init__(self, folder: Path, engine: Engine) -> None:
        self.plugins = folder / "cni-bin"
        self.plugins.mkdir(parents=True)
        self.containerd = Containerd(plugins=self.plugins, handlers=["runsc"])
        for path in (self.containerd.root / "net.d").iterdir():
            path.unlink()
        self.daemon_log = folder / "cni-daemon.log"
        self.product = Product(folder / "zun", engine)
        self.product.conf(
            DEFAULT={"sync_container_state_interval": "3"},
            compute={"orphan_grace_seconds": "0"},
            cri={
                "endpoint": self.containerd.endpoint,
                "log_directory": str(self.containerd.logs),
                "cgroup_parent": self.containerd.groups,
            },
            cni_daemon={
                "socket": str(self.containerd.root / "cni.sock"),
                "zun_cni_config_file": str(self.containerd.root / "net.d" / "10-zun-cni.conf"),
            },
        )
        self._daemon: forks.Process | None = None

    def start(self, env: Mapping[str, str] | None = None) -> CapsuleCloud:
        """Capsules can be made afterwards. ``env`` adds to the product's environment."""
        self._run("install", "--bin-dir", str(self.plugins))
        self.containerd.start()
        self.start_daemon()
        self.product.start(env)
        return self

    def _run(self, *words: str) -> None:
        command = [*DAEMON, *words, "--config-file", str(self.product.state.conf_file)]
        done = forks.run(command, env=OVS_ENV, timeout=60)
        assert done.returncode == 0, done.stderr

    def start_daemon(self) -> None:
        with self.daemon_log.open("ab") as log:
            command = [*DAEMON, "--config-file", str(self.product.state.conf_file)]
            self._daemon = forks.start(command, stdout=log, stderr=log, env=OVS_ENV, start_new_session=True)
        socket = self.containerd.root / "cni.sock"
        wait_until(socket.exists, 90, f"the CNI daemon listens: {self.daemon_log.read_text()[-2000:]}")

    def kill_daemon(self) -> None:
        """SIGKILL."""
        assert self._daemon is not None
        self._daemon.kill()
        self._daemon.wait(30)
        (self.containerd.root / "cni.sock").unlink(missing_ok=True)

    # -- what a user does -------------------------------------------------------------------------

    @property
    def http(self) -> httpx.Client:
        """The administrator's; one for each process of the product: making a client takes longer than most requests."""
        if self._http is None or self._http[0] != self.product.pid:
            self._http = self.product.pid, self.product.http()
        return self._http[1]

    def create(self, *containers: dict[str, Any], name: str = "web", **spec: Any) -> str:
        """A capsule accepted (202); its uuid."""
        entries = [self.entry(**one) for one in containers]
        if "initContainers" in spec:
            spec["initContainers"] = [self.entry(**one) for one in spec["initContainers"]]
        return self.ask({"kind": "capsule", "metadata": {"name": name}, "spec": {"containers": entries, **spec}})

    def ask(self, template: dict[str, Any]) -> str:
        """The same for a whole template."""
        answer = self.http.post("/v1/capsules", json={"template": template})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["uuid"])

    def entry(self, script: str = SLEEPS, **more: Any) -> dict[str, Any]:
        """One container of a template that runs a shell script."""
        return {"image": self.image, "imagePullPolicy": "ifnotpresent", "command": ["sh", "-c", script], **more}

    def show(self, uuid: str) -> dict[str, Any]:
        """{} when it is gone."""
        answer = self.http.get(f"/v1/capsules/{uuid}")
        return {} if answer.status_code == 404 else dict(answer.json())

    def wait(self, uuid: str, *statuses: str, timeout: float = 90.0) -> dict[str, Any]:
        ends = {*statuses, "Error"}
        shown = self.until(uuid, lambda shown: shown.get("status") in ends, timeout, f"is {statuses}")
        assert shown["status"] in statuses, f"{shown['status_reason']}; {shown}\n{self.product.log()[-6000:]}"
        return shown

    def until(self, uuid: str, condition: Callable[[dict[str, Any]], Any], timeout: float, why: str) -> dict[str, Any]:
        """The capsule once ``condition`` holds of it."""
        last: dict[str, Any] = {}

        def holds() -> bool:
            last.clear()
            last.update(self.show(uuid))
            return bool(condition(last))

        try:
            wait_until(holds, timeout, why)
        except AssertionError as error:
            log, daemon = self.product.log()[-3000:], self.daemon_log.read_text()[-2000:]
            raise AssertionError(f"{error}\n{last}\n{log}\n{daemon}") from None
        return last

    def execute(self, member: str, command: str) -> str:
        """Output of a command in a member; it has to succeed."""
        answer = self.http.post(f"/v1/containers/{member}/execute", params={"command": command, "run": "true"})
        assert answer.status_code == 200, answer.text
        assert answer.json()["exit_code"] == 0, answer.json()
        return str(answer.json()["output"])

    def says(self, member: str, command: str, text: str) -> None:
        """Returns once a command in a member succeeds and its output is ``text``, but for spaces around it."""

        def said() -> bool:
            asked = {"command": command, "run": "true"}
            answer = self.http.post(f"/v1/containers/{member}/execute", params=asked)
            return answer.status_code == 200 and (answer.json()["exit_code"], answer.json()["output"].strip()) == (
                0,
                text,
            )

        wait_until(said, 60, f"{command} in {member} says {text!r}")

    def logs(self, member: str, text: str) -> str:
        """A member's log, once ``text`` is in it."""
        last: list[str] = [""]

        def there() -> bool:
            last[0] = self.http.get(f"/v1/containers/{member}/logs").json()
            return text in last[0]

        wait_until(there, 60, f"{text!r} is in the log of {member}")
        return last[0]

    def delete(self, uuid: str, timeout: float = 60.0) -> None:
        """Gone when it returns."""
        answer = self.http.delete(f"/v1/capsules/{uuid}")
        assert answer.status_code == 204, answer.text
        self.until(uuid, lambda shown: not shown, timeout, "is gone")

    def clear(self) -> None:
        """Deletes every capsule and waits until nothing of them is left anywhere."""
        while rows := self.http.get("/v1/capsules", params={"all_projects": "true"}).json()["capsules"]:
            for row in rows:
                self.delete(row["uuid"])
        wait_until(lambda: not self.leftovers(), 60, f"nothing is held: {self.leftovers()}")

    # -- behind the product's back ----------------------------------------------------------------

    def _crictl(self, call: Callable[[CriPods], Any]) -> Any:
        """One question to the engine, past the product."""

        async def ask() -> Any:
            pods = CriPods(self.containerd.conf())
            try:
                await pods.connect()
                return await call(pods)
            finally:
                await pods.close()

        return asyncio.run(ask())

    def pid_of(self, member: str) -> int:
        """The member's process; 0 while it has none."""
        found = self._crictl(lambda pods: pods.inspect(member))
        return int(self.containerd.tasks().get(found.engine_id, 0)) if found and found.state == "running" else 0

    def kill_sandbox(self, capsule: str) -> None:
        """The sandbox's own process is killed."""
        found = self._crictl(lambda pods: pods.sandbox(capsule))
        os.kill(self.containerd.tasks()[found.sandbox_id], signal.SIGKILL)

    def sandboxes(self) -> list[str]:
        """Capsules that have one."""
        return sorted(one.uuid for one in self._crictl(lambda pods: pods.sandboxes()))

    def has_ready_sandbox(self, capsule: str) -> bool:
        found = self._crictl(lambda pods: pods.sandbox(capsule))
        return bool(found and found.ready)

    # -- what it holds ----------------------------------------------------------------------------

    def leftovers(self) -> list[str]:
        """Sandboxes, namespaces, mounts, groups, logs, veth pairs, interface data, ports, allocations, quota."""
        found = [*self.containerd.leftovers(), *self.product.leaks()]
        found += [f"interface data {uuid}" for uuid in Handovers(str(self._state_path())).capsules()]
        return found + [f"link {name}" for name in self.links()]

    def links(self) -> list[str]:
        """Host ends of this product's capsules."""
        listed = subprocess.run(["ip", "-d", "link"], capture_output=True, text=True, timeout=20, check=True).stdout
        owner = self._owner()
        return [line.strip() for line in listed.splitlines() if owner in line and "zun-bridge" not in line]

    def _owner(self) -> str:
        return Handovers(str(self._state_path())).owner

    def _state_path(self) -> Path:
        from zun import conf as configuration

        return Path(configuration.load([], files=[str(self.product.state.conf_file)]).state_path)

    # -- the end ----------------------------------------------------------------------------------

    def close(self) -> None:
        try:
            if self.product.running:
                self.clear()
        finally:
            self.product.stop()
            if self._daemon is not None and self._daemon.poll() is None:
                self._daemon.terminate()
                self._daemon.wait(60)
            self.containerd.close()
            shutil.rmtree(self.plugins, ignore_errors=True)
        assert not self.product.remains(), self.product.remains()


class DockerCapsuleCloud(CapsuleCloud):
    """The same on Docker, where neither containerd nor CNI has a part."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        self.engine = engine
        self.image = engine.load_busybox()
        self.daemon_log = folder / "no-daemon.log"
        self.daemon_log.touch()
        self.product = Product(folder / "zun", engine)
        self.product.conf(
            DEFAULT={
                "sync_container_state_interval": "3",
                "capsule_driver": "docker",
                "sandbox_image": engine.load_pause(),
            },
            compute={"orphan_grace_seconds": "0"},
        )

    def start(self, env: Mapping[str, str] | None = None) -> CapsuleCloud:
        self.product.start(env)
        return self

    def pid_of(self, member: str) -> int:
        found = self._named(f"zunmember-{member}")
        return int(found["State"]["Pid"]) if found else 0

    def kill_sandbox(self, capsule: str) -> None:
        found = self._named(f"zunpod-{capsule}")
        assert found is not None
        os.kill(int(found["State"]["Pid"]), signal.SIGKILL)

    def has_ready_sandbox(self, capsule: str) -> bool:
        found = self._named(f"zunpod-{capsule}")
        return bool(found and found["State"]["Running"])

    def _named(self, name: str) -> dict[str, Any] | None:
        for row in self.product.engine_containers():
            if f"/{name}" in row["Names"]:
                with contextlib.suppress(httpx.HTTPStatusError):  # replaced meanwhile
                    return dict(self.engine.get(f"/containers/{row['Id']}/json"))
        return None

    def leftovers(self) -> list[str]:
        return self.product.leaks()

    def close(self) -> None:
        try:
            if self.product.running:
                self.clear()
        finally:
            self.product.stop()
        assert not self.product.remains(), self.product.remains()
