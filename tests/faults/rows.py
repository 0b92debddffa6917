"""Rows of the fault table: which service fails, how, and from which step on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NAMES = {
    "MariaDB": "database",
    "Glance": "[Gg]lance",
    "RabbitMQ": "message broker",
    "registry": "Error on pulling image: 127.0.0.1:",
    "Kuryr": r"Kuryr \(the network plug-in of Docker\)",
}
"""What a reason calls a service, where it is not its name."""
HTTP = ("stop", "hang", "500")
LOSE = (*HTTP, "lose")
RAW = ("refuse", "cut", "hang")


@dataclass(frozen=True)
class Row:
    """One row of the fault table.

    ``step``: the call (``METHOD path``, a regular expression) from which on the service is broken. ``at``: the point
    (see ``pausable``) at which the product is held while the fault is set, where no call tells. ``ends``: ``Running``
    (the fault passes once the product has met it) or ``Error`` (it lasts until the container is so).
    """

    service: str
    fault: str
    step: str = ""
    at: str = ""
    needs: str = ""
    ends: str = "Running"
    side: str = "node"
    """Whose way to the service is broken: the node's or the API's."""

    def __str__(self) -> str:
        step = re.sub(r"\[[^]]*\]\*?|[^\w./ :-]+", "", self.step or self.at).strip("/ ").replace(" ", ":")
        side = "" if self.side == "node" else self.side
        return "-".join(word for word in (self.service, self.fault, step, side, self.needs.replace(" ", "_")) if word)

    @property
    def named(self) -> str:
        """Regular expression: the service, as texts for people call it."""
        return NAMES.get(self.service, self.service)


def rows(service: str, faults: Sequence[str], step: str = "", **fields: Any) -> list[Row]:
    """The step once with each fault."""
    return [Row(service, fault, step, **fields) for fault in faults]
