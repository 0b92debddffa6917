"""Parameters of the operations on a container; each may come in the query or in the body."""

from __future__ import annotations

import re
import signal as signals
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import model_validator

from zun.api.text import shown
from zun.api.v1.models.common import (
    Arguments,
    Check,
    Free,
    Positive,
    Short,
    StrictBoolean,
    Text,
    Whole,
    WideBoolean,
    refuse,
)
from zun.api.v1.models.containers import Plain, require_address


class _Timeout(Check):
    """Seconds, or the empty text for the engine's default (None)."""

    _whole = Whole(0)

    def check(self, value: Any) -> int | None:
        return None if value == "" else self._whole.check(value)

    def schema(self) -> dict[str, Any]:
        return self._whole.schema()


class _Signal(Check):
    """A signal's name with or without SIG, in one letter case, or its number; the text ``None`` is the default."""

    _names = {one.name for one in signals.Signals}
    _numbers = {str(int(one)) for one in signals.Signals}

    def check(self, value: Any) -> str | None:
        if value == "None":
            return None
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if isinstance(value, str):
            if value in self._numbers:
                return value
            name = value.upper()
            full = name if name.startswith("SIG") else f"SIG{name}"
            if full in self._names and value in (name, value.lower()):
                return full
        return refuse(f"{shown(value)} is not a signal")

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}


class _Tail(Check):
    """Lines from the end; any other text means all (None)."""

    def check(self, value: Any) -> int | None:
        if isinstance(value, bool) or not isinstance(value, str | int | None):
            refuse(f"{shown(value)} is not of type 'string', 'integer'")
        text = str(value)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "integer"}, {"type": "string"}]}


class _Since(Check):
    """Seconds of the epoch, or ``YYYY-MM-DD HH:MM:SS,mmm`` (UTC); gives seconds or None."""

    _stamp = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2},[0-9]{1,3}")

    def check(self, value: Any) -> float | None:
        if value in (None, ""):
            return None
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**11:
            return float(value)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 11:
            return float(value)
        if isinstance(value, str) and self._stamp.fullmatch(value):
            try:
                return datetime.strptime(value, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC).timestamp()
            except ValueError:
                refuse(f"{shown(value)} is not a date")
        return refuse(f"{shown(value)} is neither seconds of the epoch nor 'YYYY-MM-DD HH:MM:SS,mmm'")

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "integer"}, {"type": "string"}]}


class Timeout(Arguments):
    """Stop and reboot; None = the engine's default."""

    timeout: Annotated[int | None, _Timeout()] = None


class Kill(Arguments):
    """Kill; None = KILL."""

    signal: Annotated[str | None, _Signal()] = None


class Rebuild(Arguments):
    """Rebuild, perhaps from another image."""

    image: Plain | None = None
    image_driver: Free | None = None


class Logs(Arguments):
    """Which log text."""

    stdout: WideBoolean = True
    stderr: WideBoolean = True
    timestamps: WideBoolean = False
    tail: Annotated[int | None, _Tail()] = None
    since: Annotated[float | None, _Since()] = None


class Execute(Arguments):
    """A command in the container."""

    command: Annotated[str, Text(1, None, r"^[^\x00]*$")]
    run: StrictBoolean = True
    interactive: StrictBoolean = False


class ExecuteResize(Arguments):
    """Terminal size of an exec session."""

    exec_id: Annotated[str, Text(64, 64, r"^[a-f0-9]*$")]
    h: Positive
    w: Positive


class Resize(Arguments):
    """Terminal size of the main process."""

    h: Positive
    w: Positive


class Top(Arguments):
    """Arguments for ps; the text ``None`` is no argument."""

    ps_args: Plain | None = None


class GetArchive(Arguments):
    """Where to read."""

    path: Annotated[str, Text(1, None, r"^[^\x00]*$")]


class PutArchive(GetArchive):
    """Where to write, and the archive."""

    data: Free


class Commit(Arguments):
    """Name of the new image."""

    repository: Short
    tag: Short | None = None


class SecurityGroup(Arguments):
    """A security group's name or id."""

    name: Short


class NetworkDetach(Arguments):
    """Exactly one of network and port."""

    network: Short | None = None
    port: Short | None = None

    @model_validator(mode="after")
    def _one(self) -> NetworkDetach:
        if (self.network is None) == (self.port is None):
            refuse("exactly one of 'network' and 'port' has to be given")
        return self


class NetworkAttach(Arguments):
    """Not both network and port; neither is the default network."""

    network: Short | None = None
    port: Short | None = None
    fixed_ip: Free | None = None

    @model_validator(mode="after")
    def _consistent(self) -> NetworkAttach:
        if self.network is not None and self.port is not None:
            refuse("'network' and 'port' cannot be given together")
        if self.fixed_ip is not None:
            require_address(self.fixed_ip)
        return self
