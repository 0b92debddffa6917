"""Writes what containerd needs of us: the plug-in with interpreter and address filled in, and its configuration.

Files appear at once and whole, by a rename within their folder, which is also what containerd notices.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from zun.cni import plugin
from zun.cni.access import address_of, ensure_key, key_file

NAME = "zun-cni"
BIN_DIRS = (Path("/opt/cni/bin"), Path("/usr/lib/cni"), Path("/usr/libexec/cni"))
"""Where containerd and Debian look for plug-ins."""
_LOOPBACK = "loopback"
_MORE_SECONDS = 60
_LONGEST_FIRST_LINE = 120


class InstallError(Exception):
    """What stands in the way; the message is the whole story."""


def bin_dir() -> Path:
    """The folder of plug-ins that is there already, else containerd's default."""
    return next((folder for folder in BIN_DIRS if (folder / _LOOPBACK).exists()), BIN_DIRS[0])


def install(conf: Any, plugins: Path, config: Path) -> list[str]:
    """Write both; sentences that say what else needs care. Raises InstallError, OSError."""
    plugins.mkdir(parents=True, exist_ok=True)
    config.parent.mkdir(parents=True, exist_ok=True)
    _loopback(plugins)
    path = key_file(conf)
    if path is not None:
        ensure_key(path)
    _write(plugins / NAME, rendered(conf), 0o755)
    _write(config, configuration(config), 0o644)
    first = sorted(other.name for other in config.parent.iterdir() if other.suffix in (".conf", ".conflist", ".json"))
    if first[0] != config.name:
        return [f"containerd takes the first configuration in {config.parent}, which is {first[0]}: remove it."]
    return []


def rendered(conf: Any) -> str:
    """The plug-in's text. Its interpreter is the one below this environment: no ``site``, no ``.pth`` file is read."""
    interpreter = os.path.realpath(sys.executable)
    if len(interpreter) > _LONGEST_FIRST_LINE or re.search(r"\s", interpreter):
        raise InstallError(f"The path of the interpreter, {interpreter}, cannot stand in a script's first line.")
    constants = {
        "ADDRESS": address_of(conf),
        "KEY_FILE": str(key_file(conf) or ""),
        "TIMEOUT": max(plugin.TIMEOUT, conf.cni_daemon.vif_active_timeout + _MORE_SECONDS),
    }
    lines = [f"#!{interpreter} -IS"]
    for line in Path(plugin.__file__).read_text().splitlines():
        name = line.partition(" = ")[0]
        lines.append(f"{name} = {constants.pop(name)!r}" if name in constants else line)
    return "\n".join(lines) + "\n"


def configuration(path: Path) -> str:
    """Of one plug-in, or a list of one where the file is named so."""
    only = {"type": NAME}
    body = {"plugins": [only]} if path.suffix == ".conflist" else only
    return json.dumps({"cniVersion": "1.0.0", "name": "zun", **body}, indent=2) + "\n"


def _loopback(plugins: Path) -> None:
    """containerd needs this plug-in in the same folder."""
    wanted = plugins / _LOOPBACK
    if wanted.exists():
        return
    for folder in BIN_DIRS:
        if (folder / _LOOPBACK).exists():
            wanted.unlink(missing_ok=True)  # a link that leads nowhere
            wanted.symlink_to(folder / _LOOPBACK)
            return
    raise InstallError(
        f"containerd needs the CNI plug-in loopback beside ours, and neither {plugins} nor"
        f" {', '.join(map(str, BIN_DIRS))} has it: apt-get install containernetworking-plugins."
    )


def _write(path: Path, text: str, mode: int) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".zun-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            os.fchmod(file.fileno(), mode)
        Path(temporary).replace(path)
    except BaseException:
        os.unlink(temporary)
        raise
