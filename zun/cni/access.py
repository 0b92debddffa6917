"""Who may ask the daemon: on its Unix socket root alone, by the file's mode; on a port those who can read its key."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import tempfile
from pathlib import Path
from typing import Any


def address_of(conf: Any) -> str:
    """As the plug-in takes it: a path, or host:port."""
    options = conf.cni_daemon
    if options.socket:
        return str(options.socket)
    host = f"[{options.cni_daemon_host}]" if ":" in options.cni_daemon_host else options.cni_daemon_host
    return f"{host}:{options.cni_daemon_port}"


def key_file(conf: Any) -> Path | None:
    """Where the key is; None where none is needed."""
    return None if conf.cni_daemon.socket else Path(conf.state_path).resolve() / "cni" / "key"


def ensure_key(path: Path) -> str:
    """The key, made by who comes first. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix="~key")  # 0600
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(32))
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        os.unlink(temporary)
    return path.read_text().strip()


def opens(given: str, key: str) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(given.encode(errors="replace"), key.encode())
