"""A real OCI registry on a free port of 127.0.0.1, plain HTTP, with or without passwords."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import bcrypt

from tests.support.busybox_image import build_layout
from tests.support.engine import Engine
from tests.support.ports import free_port
from tests.support.wait import wait_until

_PORT_TRIES = 5
_START_SECONDS = 60.0


@dataclass
class Registry:
    """A running registry. ``address``: ``127.0.0.1:PORT``."""

    address: str
    folder: Path
    users: Mapping[str, str]
    process: subprocess.Popen[bytes] = field(repr=False)

    def push_busybox(
        self,
        name: str,
        tag: str,
        *,
        marker: bytes = b"",
        files: Mapping[str, bytes] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> str:
        """Put a busybox image there and return its full reference. The rest: see ``build_layout``."""
        folder = self.folder / "layouts" / f"{name.replace('/', '_')}-{tag}"
        layout = build_layout(folder, marker, files=files, config=config)
        reference = f"{self.address}/{name}:{tag}"
        command = ["skopeo", "copy", "--quiet", "--insecure-policy", "--dest-tls-verify=false"]
        for user, password in list(self.users.items())[:1]:
            command += ["--dest-creds", f"{user}:{password}"]
        command += [f"oci:{layout}:latest", f"docker://{reference}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return reference

    def stop(self) -> None:
        """End the process, and forget its images in the engine; a second call is success."""
        engine = Engine()
        if engine.ping():
            engine.forget_images(self.address)
        engine.close()
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/v2/", timeout=2):
                return True
        except urllib.error.HTTPError as error:
            error.close()
            return error.code == 401
        except OSError:
            return False


def start_registry(folder: Path, *, users: Mapping[str, str] | None = None) -> Registry:
    """Start a registry that keeps its data in ``folder``. ``users``: name -> password; None = open to all."""
    folder.mkdir(parents=True, exist_ok=True)
    for _ in range(_PORT_TRIES):
        registry = _launch(folder, free_port(), dict(users or {}))
        wait_until(
            partial(_settled, registry),
            _START_SECONDS,
            f"the registry at {registry.address} answers",
        )
        if registry.process.poll() is None:
            return registry
    raise AssertionError(f"no registry came up: {(folder / 'registry.log').read_text()[-2000:]}")


def _settled(registry: Registry) -> bool:
    return registry.process.poll() is not None or registry.answers()


def _launch(folder: Path, port: int, users: Mapping[str, str]) -> Registry:
    address = f"127.0.0.1:{port}"
    config: dict[str, object] = {
        "version": "0.1",
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}, "delete": {"enabled": True}},
        "http": {"addr": address, "secret": "only-for-tests"},
    }
    if users:
        passwords = folder / "htpasswd"
        passwords.write_text("".join(f"{user}:{_hashed(password)}\n" for user, password in users.items()))
        config["auth"] = {"htpasswd": {"realm": "tests", "path": str(passwords)}}
    (folder / "config.yml").write_text(json.dumps(config))  # JSON is YAML
    environment = {key: value for key, value in os.environ.items() if not key.startswith("REGISTRY_")}
    environment["OTEL_TRACES_EXPORTER"] = "none"
    with (folder / "registry.log").open("ab") as log:
        command = ["docker-registry", "serve", str(folder / "config.yml")]
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    return Registry(address, folder, users, process)


def _hashed(password: str) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(rounds=5)).decode()
