"""When leftovers that tell no age were first seen: one small file on the machine where the audit runs. Blocking."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from pathlib import Path

LOG = logging.getLogger(__name__)


class Ledger:
    """``<state_path>/audit.json``: kind -> name -> first seen, naive UTC. One that cannot be read is begun anew."""

    def __init__(self, state_path: str) -> None:
        self._file = Path(state_path) / "audit.json"
        self._seen = self._read()

    def first_seen(self, kind: str, name: str, now: datetime) -> datetime:
        """Now, when it was not seen before; a moment to come (a clock was set back) counts as now."""
        known = self._seen.setdefault(kind, {})
        with suppress(ValueError):
            return min(datetime.fromisoformat(known.setdefault(name, now.isoformat())), now)
        known[name] = now.isoformat()
        return now

    def keep(self, kind: str, names: Collection[str]) -> None:
        """Forget what is not left any more."""
        self._seen[kind] = {name: when for name, when in self._seen.get(kind, {}).items() if name in names}

    def save(self) -> None:
        """Whole or not at all. A folder that cannot be written to is told: ages begin anew each time then."""
        text = json.dumps({kind: names for kind, names in self._seen.items() if names}, indent=1)
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=self._file.parent, prefix=".audit-")
            try:
                with os.fdopen(descriptor, "w") as file:
                    file.write(text)
                os.replace(name, self._file)
            except BaseException:
                os.unlink(name)
                raise
        except OSError as error:
            LOG.warning("action=audit ledger=%s result=not written reason=%s", self._file, error.strerror or error)

    def _read(self) -> dict[str, dict[str, str]]:
        try:
            found = json.loads(self._file.read_text())
            return {str(kind): {str(k): str(v) for k, v in names.items()} for kind, names in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError) as error:
            LOG.warning("action=audit ledger=%s result=begun anew reason=%s", self._file, error)
            return {}
