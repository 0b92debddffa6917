"""An OCI layout of the machine's static busybox. The same busybox and marker always give the same digests."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BUSYBOX = Path("/bin/busybox")
_FOLDERS = ("bin", "dev", "etc", "home", "proc", "root", "sys", "usr", "usr/bin", "var", "var/www")
_PASSWD = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n"
_GROUP = b"root:x:0:\nnogroup:x:65534:\n"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def build_layout(
    folder: Path,
    marker: bytes = b"",
    *,
    files: Mapping[str, bytes] | None = None,
    config: Mapping[str, Any] | None = None,
) -> Path:
    """Fill ``folder`` with a layout whose one image is tagged ``latest``; returns it.

    ``marker`` becomes the file /marker in a layer of its own, so that an image can be made that no engine has yet.
    ``files`` (programs, pages) get a layer too; ``config`` adds to the image's own (``Cmd``, ``ExposedPorts``).
    """
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    layers = [_base_layer()]
    layers += [_layer({"marker": marker})] if marker else []
    layers += [_layer(files, mode=0o755)] if files else []
    description = {
        "architecture": _MACHINES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Cmd": ["sh"], "Env": ["PATH=/bin:/usr/bin"], **(config or {})},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}" for layer in layers]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _blob(blobs, json.dumps(description).encode(), "config.v1+json"),
        "layers": [_blob(blobs, gzip.compress(layer, 6, mtime=0), "layer.v1.tar+gzip") for layer in layers],
    }
    entry = _blob(blobs, json.dumps(manifest).encode(), "manifest.v1+json")
    entry["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (folder / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
    return folder


def _base_layer() -> bytes:
    listing = subprocess.run([BUSYBOX, "--list"], check=True, capture_output=True, text=True)
    # A link named busybox would replace the program itself.
    applets = [name for name in listing.stdout.split() if name != "busybox"]
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name in _FOLDERS:
            _add(tar, name)
        _add(tar, "tmp", mode=0o1777)
        _add(tar, "bin/busybox", data=BUSYBOX.read_bytes())
        for name in applets:
            _add(tar, f"bin/{name}", mode=0o777, link="busybox")
        _add(tar, "etc/passwd", mode=0o644, data=_PASSWD)
        _add(tar, "etc/group", mode=0o644, data=_GROUP)
    return data.getvalue()


def _layer(files: Mapping[str, bytes], mode: int = 0o644) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in files.items():
            _add(tar, name, mode=mode, data=content)
    return data.getvalue()


def _add(tar: tarfile.TarFile, name: str, *, mode: int = 0o755, data: bytes | None = None, link: str = "") -> None:
    info = tarfile.TarInfo(name)
    info.mode = mode
    if link:
        info.type, info.linkname = tarfile.SYMTYPE, link
    elif data is None:
        info.type = tarfile.DIRTYPE
    else:
        info.size = len(data)
    tar.addfile(info, io.BytesIO(data) if data is not None else None)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _blob(blobs: Path, data: bytes, kind: str) -> dict[str, Any]:
    (blobs / _digest(data)).write_bytes(data)
    media_type = f"application/vnd.oci.image.{kind}"
    return {"mediaType": media_type, "digest": f"sha256:{_digest(data)}", "size": len(data)}
