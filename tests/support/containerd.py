"""A containerd of our own: own folder, socket, images, control groups and addresses; it shares the kernel with others.

Its sandboxes have a veth pair by the reference plug-in ``ptp``. Their pause program is busybox's ``sleep``: CRI kills a
sandbox without grace, so nothing has to handle signals.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import psutil

from tests.support.busybox_image import build_layout
from tests.support.subnets import SubnetClaim
from tests.support.wait import wait_until
from zun.conf import load
from zun.runtime.cri.protocol import METHODS

PLUGINS = Path("/usr/lib/cni")
"""Debian's folder of CNI plug-ins."""

PAUSE_IMAGE = "localhost/zun-test-pause:1"
"""A busybox, which is in the engine."""
_START_SECONDS = 90.0
_HANDLERS = Path(__file__).parent / "oci"

_CONFIG = """\
version = 2
root = "{root}/root"
state = "{root}/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.nri.v1.nri",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]
[grpc]
  address = "{root}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{root}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  disable_apparmor = true
  disable_hugetlb_controller = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{root}/net.d"
    max_conf_num = 1
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{root}/certs.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    snapshotter = "overlayfs"
"""

_RUNTIME = """\
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{name}]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{name}.options]
        BinaryName = "{program}"
        SystemdCgroup = false
        Root = "{root}/oci"
"""


class Containerd:
    """A running engine. ``handlers``: names of runtimes beside runc, each a script in ``tests/support/oci``."""

    def __init__(self, *, handlers: Sequence[str] = (), plugins: Path = PLUGINS) -> None:
        # Sockets have short paths.
        self.root = Path(tempfile.mkdtemp(prefix="zun-ctrd-"))
        self.socket = self.root / "containerd.sock"
        self.groups = f"/zun-test-{uuid4().hex[:12]}"
        self.logs = self.root / "logs"
        self._claim = SubnetClaim()
        self._handlers = handlers
        self._plugins = plugins
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("root", "state", "net.d", "certs.d", "logs", "bin"):
            (self.root / name).mkdir()
        self._write_config()
        self.use_network()

    @property
    def endpoint(self) -> str:
        return f"unix://{self.socket}"

    @property
    def process(self) -> psutil.Process:
        assert self._process is not None
        return psutil.Process(self._process.pid)

    def conf(self, **options: Any) -> Any:
        """The product's configuration for this engine, with options of [cri] replaced."""
        conf = load(files=[])
        given = {"endpoint": self.endpoint, "log_directory": str(self.logs), "cgroup_parent": self.groups}
        for name, value in {**given, **options}.items():
            conf.set_override(name, value, group="cri")
        return conf

    def use_network(self, network: Mapping[str, Any] | None = None) -> None:
        """The CNI configuration from now on; None is a veth pair with an address of ours."""
        ipam = {"type": "host-local", "subnet": self._claim.cidr, "dataDir": str(self.root / "addresses")}
        chosen = network or {"type": "ptp", "ipMasq": False, "ipam": ipam}
        text = json.dumps({"cniVersion": "0.4.0", "name": "zun-test", "plugins": [chosen]})
        self.use_network_file(text)

    def use_network_file(self, text: str | None) -> None:
        """The CNI configuration as it is; None: there is none."""
        part, file = self.root / "net.d" / ".part", self.root / "net.d" / "10-test.conflist"
        if text is None:
            file.unlink()
            return
        # containerd hears of a rename within the folder, not of one into it.
        part.write_text(text)
        part.replace(file)

    def start(self) -> Containerd:
        """Answers afterwards; the pause image is there."""
        with (self.root / "containerd.log").open("ab") as log:
            command = ["containerd", "-c", str(self.root / "config.toml")]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.root, start_new_session=True
            )
        wait_until(self._settled, _START_SECONDS, f"{self.socket} answers")
        assert self._process.poll() is None, self.log()
        if not (self.root / "pause.tar").exists():
            self._load_pause()
        return self

    def log(self) -> str:
        return (self.root / "containerd.log").read_text()[-4000:]

    def kill(self) -> None:
        """SIGKILL, as the kernel would; what it runs goes on."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(10)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()

    def ctr(self, *words: str, check: bool = True) -> str:
        """Output of ``ctr`` in CRI's namespace."""
        command = ["ctr", "-a", str(self.socket), "-n", "k8s.io", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def tasks(self) -> Mapping[str, int]:
        """Of everything that runs: id and process."""
        rows = [line.split() for line in self.ctr("task", "ls").splitlines()[1:]]
        return {row[0]: int(row[1]) for row in rows}

    def inspect_sandbox(self, ident: str) -> Mapping[str, Any]:
        """The engine's own record of a sandbox: ``labels``, ``annotations`` as CRI has them."""
        record = json.loads(self.ctr("container", "info", ident))
        kept: Mapping[str, Any] = record["Extensions"]
        config = json.loads(base64.b64decode(kept["io.cri-containerd.sandbox.metadata"]["value"]))
        found: Mapping[str, Any] = config["Metadata"]["Config"]
        return found

    def leftovers(self) -> Sequence[str]:
        """What sandboxes leave on a machine: processes, mounts, control groups, log files."""
        found = [f"process {one.pid}, a shim" for one in self.shims()]
        found += [f"mount {path}" for path in self._mounts()]
        found += [f"namespace {path}" for path in self.root.glob("state/io.containerd.grpc.v1.cri/netns/*")]
        bundles = self.root.glob("state/io.containerd.runtime.v2.task/k8s.io/*")
        found += [f"bundle {path} with {sorted(one.name for one in path.glob('*'))}" for path in bundles]
        found += [f"group {path}" for path in self._groups() if path.name != self.groups.strip("/")]
        found += [f"log {path}" for path in self.logs.iterdir()]
        return found

    def clean_after(self, ident: str) -> None:
        """What a sandbox that no product cares for leaves, once its processes are gone."""
        for path in self._mounts():
            if ident in path:
                subprocess.run(["umount", "--lazy", path], check=True, capture_output=True)
        for path in self.root.glob(f"*/io.containerd.*/**/{ident}"):
            shutil.rmtree(path, ignore_errors=True)
        for path in self.root.glob("state/io.containerd.grpc.v1.cri/netns/cni-*"):
            subprocess.run(["umount", "--lazy", str(path)], check=False, capture_output=True)
            path.unlink()
        for path in sorted(self._groups(), key=lambda one: -len(one.parts)):
            if path.name != self.groups.strip("/"):
                wait_until(lambda path=path: _removed(path), 30, f"{path} can be removed")  # type: ignore[misc]

    def close(self) -> None:
        """Ends it and all it runs; nothing of it is left on the machine."""
        if self._process is not None and self._process.poll() is None:
            for ident in self.tasks():
                self.ctr("task", "kill", "-s", "KILL", ident, check=False)
        self.stop()
        for shim in self.shims():
            try:
                family = [*shim.children(recursive=True), shim]
            except psutil.Error:
                continue
            for process in family:
                _kill(process)
        wait_until(lambda: not self.shims(), 30, "the engine's shims are gone")
        for path in sorted(self._mounts(), reverse=True):
            subprocess.run(["umount", "--lazy", path], check=False, capture_output=True)
        for path in sorted(self._groups(), key=lambda one: -len(one.parts)):
            wait_until(lambda path=path: _removed(path), 30, f"{path} can be removed")  # type: ignore[misc]
        for base in Path("/sys/fs/cgroup").glob("*/k8s.io"):
            _removed(base)  # of sandboxes without a group of ours, and maybe another engine's
        for sandbox in (self.root / "root" / "io.containerd.grpc.v1.cri" / "sandboxes").glob("*"):
            for path in Path("/var/lib/cni/results").glob(f"*-{sandbox.name}-*"):
                path.unlink(missing_ok=True)
        for bundle in (self.root / "state").glob("io.containerd.runtime.v2.task/k8s.io/*/address"):
            Path(bundle.read_text().removeprefix("unix://")).unlink(missing_ok=True)
        self._claim.close()
        wait_until(lambda: _emptied(self.root), 30, f"{self.root} is removed")

    # -- within ----------------------------------------------------------------------------------

    def _write_config(self) -> None:
        text = _CONFIG.format(root=self.root, pause=PAUSE_IMAGE, plugins=self._plugins)
        text += _RUNTIME.format(name="runc", program="runc", root=self.root)
        for name in self._handlers:
            program = self.root / "bin" / name
            script = (_HANDLERS / f"{name}.sh").read_text().replace("@RUN@", str(self.root / "bin" / f"{name}.run"))
            program.write_text(script)
            program.chmod(0o755)
            text += _RUNTIME.format(name=name, program=program, root=self.root)
        (self.root / "config.toml").write_text(text)

    def _settled(self) -> bool:
        assert self._process is not None
        return self._process.poll() is not None or self.answers()

    def answers(self) -> bool:
        """Over CRI, which is ready last."""
        with grpc.insecure_channel(self.endpoint) as channel:
            try:
                METHODS["Version"].on(channel)(METHODS["Version"].request(), timeout=2)
            except grpc.RpcError:
                return False
        return True

    def _load_pause(self) -> None:
        layout = build_layout(self.root / "pause", config={"Cmd": ["sleep", "2147483647"]})
        archive = self.root / "pause.tar"
        command = ["skopeo", "copy", "--quiet", "--insecure-policy", f"oci:{layout}:latest"]
        subprocess.run([*command, f"docker-archive:{archive}:{PAUSE_IMAGE}"], check=True, timeout=60)
        self.ctr("images", "import", str(archive))
        shutil.rmtree(layout)

    def shims(self) -> Sequence[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                words = process.cmdline()
                if "containerd-shim" in " ".join(words[:1]) and str(self.socket) in words:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def _mounts(self) -> Iterable[str]:
        rows = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
        return [row[1] for row in rows if row[1].startswith(f"{self.root}/")]

    def _groups(self) -> Sequence[Path]:
        bases = [Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*/")]
        found = [base / self.groups.strip("/") for base in bases if (base / self.groups.strip("/")).is_dir()]
        return [Path(folder) for one in found for folder, _, _ in os.walk(one)]


def _kill(process: psutil.Process) -> None:
    try:
        process.send_signal(signal.SIGKILL)
    except psutil.Error:
        return


def _emptied(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)  # somebody who is about to end may write into it
    return not folder.exists()


def _removed(path: Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
