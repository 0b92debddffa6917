"""An image of Debian's static busybox, for machines that reach no public registry.

first_image.py ENGINE-URL NAME: builds it and loads it into the engine unless it is there. Standard library only.
"""

import hashlib
import io
import json
import platform
import subprocess
import sys
import tarfile
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parent))
from probe import connect

BUSYBOX = Path("/bin/busybox")
FOLDERS = ("bin", "dev", "etc", "home", "proc", "root", "sys", "usr", "usr/bin", "var", "var/www")
FILES = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n",
    "etc/group": b"root:x:0:\nnogroup:x:65534:\n",
}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "ppc64le": "ppc64le", "s390x": "s390x"}
TIMEOUT = 60.0  # seconds


def add(tar: tarfile.TarFile, name: str, *, mode: int = 0o755, data: bytes | None = None, link: str = "") -> None:
    """A folder, a file or a symbolic link; no times, so that the same busybox gives the same image."""
    info = tarfile.TarInfo(name)
    info.mode = mode
    if link:
        info.type, info.linkname = tarfile.SYMTYPE, link
    elif data is None:
        info.type = tarfile.DIRTYPE
    else:
        info.size = len(data)
    tar.addfile(info, io.BytesIO(data) if data is not None else None)


def layer() -> bytes:
    """The root file system."""
    listing = subprocess.run([BUSYBOX, "--list"], check=True, capture_output=True, text=True)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in FOLDERS:
            add(tar, folder)
        add(tar, "tmp", mode=0o1777)
        add(tar, "bin/busybox", data=BUSYBOX.read_bytes())
        for applet in sorted(set(listing.stdout.split()) - {"busybox"}):
            add(tar, f"bin/{applet}", mode=0o777, link="busybox")
        for name, data in FILES.items():
            add(tar, name, mode=0o644, data=data)
    return buffer.getvalue()


def archive(name: str) -> bytes:
    """The image as the engine's load call takes it."""
    root = layer()
    config = json.dumps(
        {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Cmd": ["sh"], "Env": ["PATH=/bin:/usr/bin"]},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(root).hexdigest()]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        add(tar, "layer.tar", mode=0o644, data=root)
        add(tar, "config.json", mode=0o644, data=config)
        add(tar, "manifest.json", mode=0o644, data=json.dumps(manifest).encode())
    return buffer.getvalue()


def call(engine: str, method: str, path: str, body: bytes | None = None, timeout: float = TIMEOUT) -> tuple[int, str]:
    """One request to the engine: status and text. Raises OSError."""
    connection = connect(engine, timeout)
    try:
        headers = {"Content-Type": "application/x-tar"} if body is not None else {}
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()


def load(engine: str, name: str) -> None:
    """Makes sure the engine has the image. Raises RuntimeError with the engine's words, OSError."""
    if call(engine, "GET", f"/images/{quote(name, safe='/:')}/json")[0] == 200:
        return
    status, text = call(engine, "POST", "/images/load", archive(name))
    if status != 200 or "errorDetail" in text:
        raise RuntimeError(f"The engine did not load {name}: {text.strip()}")


if __name__ == "__main__":
    load(sys.argv[1], sys.argv[2])
