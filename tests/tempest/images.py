"""Stand-ins for the images that zun-tempest-plugin names, made from the machine's busybox and curl."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tests.support.registry import Registry

_PAGE = b"<!DOCTYPE html><title>Welcome to nginx!</title><h1>Welcome to nginx!</h1>\n"
_STAYS = {"Cmd": ["sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait"]}
_NGINX = {
    "Cmd": ["busybox", "httpd", "-f", "-p", "80", "-h", "/usr/share/nginx/html"],
    "ExposedPorts": {"80/tcp": {}},
}


def push_all(registry: Registry) -> None:
    """cirros (sh, sleep, ping, curl; runs until it is told to end), nginx (port 80, its welcome page), alpine,
    and ubuntu with bash.

    alpine also below ``library/``: a test pulls it with the engine, whose mirror the registry is.
    """
    registry.push_busybox("cirros", "latest", files=_program("curl"), config=_STAYS)
    page = {"usr/share/nginx/html/index.html": _PAGE}
    registry.push_busybox("nginx", "latest", files=page, config=_NGINX)
    for name in ("alpine", "library/alpine"):
        registry.push_busybox(name, "latest", marker=b"alpine")
    registry.push_busybox("ubuntu", "latest", files=_program("bash", "bin/bash"))


def _program(name: str, place: str = "") -> dict[str, bytes]:
    """A program of this machine with the libraries it is linked with, by path in the image: its own, or ``place``."""
    path = shutil.which(name)
    assert path is not None, f"{name} is not installed; `make tempest` installs it"
    linked = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
    files = {place or path.lstrip("/"): Path(path).read_bytes()}
    return files | {file.lstrip("/"): Path(file).read_bytes() for file in re.findall(r"(/\S+) \(0x", linked)}
