"""What the values of a create request mean: normal forms, and refusals where the engine would refuse later. Pure."""

from __future__ import annotations

import base64
import binascii
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zun.domain.errors import Base64Exception, InvalidValue, ValidationError

EXEC_TEXT_BYTES = 128 * 1024
"""Linux MAX_ARG_STRLEN: one argument or ``NAME=value``, its end included."""
EXEC_BYTES = 2 * 1024 * 1024 - EXEC_TEXT_BYTES
"""A quarter of the usual 8 MiB stack, less what the image itself may add."""
_POINTER_BYTES = 8
PATH_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Mount:
    """One entry of ``mounts``: ``source`` names a volume (or is the base64 content of a bind), else ``size`` in GiB."""

    kind: str
    destination: str
    source: str | None = None
    size: int | None = None


def split_command(text: str) -> list[str]:
    """The words of a command below 1.20, split as a shell does.

    Heat wraps its whole command in one pair of quotes; a lone quoted word with blanks is therefore split once more.
    Raises InvalidValue when quotes are not closed.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InvalidValue(f"The command cannot be split into words: {error}.") from error
    stripped = text.strip()
    if len(words) == 1 and len(words[0].split()) > 1 and stripped.startswith('"') and stripped.endswith('"'):
        try:
            return shlex.split(words[0])
        except ValueError:
            return words
    return words


def restart_policy(asked: Mapping[str, Any] | None, *, auto_remove: bool) -> dict[str, str] | None:
    """``{"Name", "MaximumRetryCount"}`` with the count as text. Raises InvalidValue for counts and combinations that
    mean nothing."""
    if asked is None:
        return None
    name, count = asked["Name"], int(asked.get("MaximumRetryCount") or 0)
    if name in ("always", "unless-stopped") and count:
        raise InvalidValue(f"maximum retry count not valid with restart policy of {name}")
    if name == "no":
        count = 0
    elif auto_remove:
        raise InvalidValue(f"auto_remove cannot be combined with the restart policy {name}")
    return {"Name": name, "MaximumRetryCount": str(count)}


def healthcheck(asked: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """``{test, interval, retries, timeout}``; numbers are whole, not negative, in seconds. Raises InvalidValue."""
    if asked is None:
        return None
    unknown = sorted(set(asked) - {"cmd", "interval", "retries", "timeout"})
    if unknown:
        raise InvalidValue(f"healthcheck does not know {', '.join(unknown)}.")
    result = {name: _whole(f"healthcheck {name}", asked[name]) for name in asked if name != "cmd"}
    command = asked.get("cmd")
    if command is None:
        return result
    if not isinstance(command, str):
        raise InvalidValue("healthcheck cmd has to be a text.")
    require_executable("healthcheck cmd", [command])
    return {**result, "test": command}


def exposed_ports(asked: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """``{"80/tcp": {}}``; the protocol defaults to tcp. Raises InvalidValue."""
    if asked is None:
        return None
    result: dict[str, Any] = {}
    for key in asked:
        port, slash, protocol = key.partition("/")
        if slash and protocol not in ("tcp", "udp"):
            raise InvalidValue(f"The protocol of exposed port '{key}' has to be tcp or udp.")
        if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
            raise InvalidValue(f"The exposed port '{key}' has to be a number from 1 to 65535.")
        result[f"{int(port)}/{protocol or 'tcp'}"] = {}
    return result


def workdir(asked: str | None) -> str | None:
    """An absolute path, or none. Raises InvalidValue: the engine takes no other."""
    if asked and not asked.startswith("/"):
        raise InvalidValue(f"The workdir '{asked}' has to be an absolute path.")
    if asked and len(asked.encode()) >= PATH_BYTES:
        raise InvalidValue(f"The workdir has to be shorter than {PATH_BYTES} bytes.")
    return asked


def environment(asked: Mapping[str, str] | None) -> dict[str, str] | None:
    """Names without ``=``, not empty. Raises InvalidValue."""
    for name in asked or ():
        if not name or "=" in name:
            raise InvalidValue(f"'{name}' cannot be the name of an environment variable.")
    return None if asked is None else dict(asked)


def require_executable(what: str, words: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """Refuse what no kernel starts: one text, or all of them, longer than exec takes. Raises InvalidValue."""
    texts = [*words, *(f"{name}={value}" for name, value in (environment or {}).items())]
    sizes = [len(text.encode()) + 1 for text in texts]
    if max(sizes, default=0) > EXEC_TEXT_BYTES:
        raise InvalidValue(f"One text of {what} is longer than the {EXEC_TEXT_BYTES} bytes a process can be given.")
    if sum(sizes) + _POINTER_BYTES * len(sizes) > EXEC_BYTES:
        raise InvalidValue(f"All of {what} is more than the {EXEC_BYTES} bytes a process can be given.")


def image_driver(asked: str | None, allowed: Sequence[str], default: str) -> str:
    """The driver named, or the default (for none, and for the text ``None``). Raises ValidationError."""
    if asked is None or asked == "None":
        return default
    if asked not in allowed:
        raise ValidationError(f"The image driver '{asked}' is not offered here; known are {', '.join(allowed)}.")
    return asked


def mounts(asked: Sequence[Mapping[str, Any]] | None) -> list[Mount]:
    """Entries in normal form. Raises InvalidValue or Base64Exception."""
    result = [_mount(entry) for entry in asked or ()]
    places = [mount.destination.rstrip("/") for mount in result]
    for place, times in Counter(places).items():
        if times > 1:
            raise InvalidValue(f"Two mounts have the same destination '{place}'.")
    return result


def _mount(entry: Mapping[str, Any]) -> Mount:
    kind = entry.get("type") or "volume"
    destination, source, size = entry.get("destination"), entry.get("source"), entry.get("size")
    if kind not in ("volume", "bind"):
        raise InvalidValue(f"The mount type '{kind}' has to be volume or bind.")
    if not destination or not destination.startswith("/") or not destination.strip("/"):
        raise InvalidValue(f"The mount destination '{destination or ''}' has to be an absolute path below '/'.")
    if len(destination.encode()) >= PATH_BYTES:
        raise InvalidValue(f"A mount destination has to be shorter than {PATH_BYTES} bytes.")
    if kind == "bind":
        if source is None:
            raise InvalidValue(f"The bind mount at '{destination}' needs a source.")
        _require_base64(source)
        return Mount("bind", destination, source=source)
    if source:
        return Mount("volume", destination, source=source)
    if size in (None, ""):
        raise InvalidValue(f"The mount at '{destination}' needs a source or a size.")
    gib = _whole("The mount size", size)
    if not 1 <= gib <= 1_000_000:
        raise InvalidValue("The mount size has to be at least 1 GiB and at most 1000000 GiB.")
    return Mount("volume", destination, size=gib)


def _require_base64(text: str) -> None:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Base64Exception("The source of a bind mount has to be base64.") from error


def _whole(what: str, value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 9:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9:
        return value
    raise InvalidValue(f"{what} has to be a whole number that is not negative.")
