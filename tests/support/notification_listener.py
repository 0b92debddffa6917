"""oslo.messaging's notification listener in a process of its own, configured by a file as an operator would."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.wait import wait_until

_CHILD = Path(__file__).with_name("notification_listener_child.py")
_SECONDS = 60.0


class Listener:
    """What has come so far."""

    def __init__(self, process: subprocess.Popen[bytes], told: Path, log: Path) -> None:
        self._process, self._told, self._log = process, told, log

    @property
    def found(self) -> list[dict[str, Any]]:
        """``priority``, ``event_type``, ``payload``, … of each notification, in the order of their coming."""
        lines = self._told.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def wait(self, count: int) -> list[dict[str, Any]]:
        """Returns when so many have come."""

        def come() -> bool:
            self.check()
            return len(self.found) >= count

        wait_until(come, _SECONDS, f"{count} notifications are received")
        return self.found

    def check(self) -> None:
        """Fails when it does not run any more."""
        ended = self._process.poll()
        assert ended is None, f"the listener ended with {ended}: {self._log.read_text(errors='replace')[-3000:]}"

    def end(self) -> None:
        """As an operator ends it; it has to end well."""
        self.check()
        self._process.communicate(timeout=_SECONDS)
        assert self._process.returncode == 0, self._log.read_text(errors="replace")[-3000:]


@contextmanager
def listener(folder: Path, topic: str, options: Mapping[str, Mapping[str, Any]]) -> Iterator[Listener]:
    """A running one. ``options`` of its configuration file, by section."""
    folder.mkdir()
    file, told, log = folder / "listener.conf", folder / "told", folder / "log"
    file.write_text(
        "".join(
            f"[{section}]\n" + "".join(f"{name} = {value}\n" for name, value in values.items())
            for section, values in options.items()
        )
    )
    with told.open("wb") as output, log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, str(_CHILD), str(file), topic], stdin=subprocess.PIPE, stdout=output, stderr=errors
        )
    try:
        found = Listener(process, told, log)
        yield found
        found.end()
    finally:
        process.kill()
        process.communicate()
