"""Several nodes on one machine: ``zun-compute`` of each as a process, with a folder and a ``zun.conf`` of its own."""

from __future__ import annotations

import configparser
import contextlib
import signal
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from tests.support import forks
from tests.support.product import ZUN, Product


class Agent:
    """Of one host, beside the API of ``product``. A simulated engine ends with it; ``sections``: options of its own."""

    def __init__(self, product: Product, host: str, **sections: Mapping[str, Any]) -> None:
        self.host, self.folder = host, product.state.root / host
        self.folder.mkdir()
        parser = configparser.RawConfigParser(default_section="")
        parser.read(product.state.conf_file)
        own = {**sections, "DEFAULT": {**sections.get("DEFAULT", {}), "host": host, "state_path": str(self.folder)}}
        for section, options in own.items():
            for name, value in options.items():
                parser.set(section, name, str(value))
        with (self.folder / "zun.conf").open("w") as file:
            parser.write(file)
        self.process: forks.Process | None = None

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            command = [str(ZUN.with_name("zun-compute")), "--config-file", str(self.folder / "zun.conf")]
            self.process = forks.start(command, stdout=log, stderr=log)

    def end(self, number: int) -> None:
        """By that signal; returns once it has ended."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(60)

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")


@contextlib.contextmanager
def ended(*agents: Agent) -> Iterator[dict[str, Agent]]:
    """By host; those that were started are killed at the end."""
    try:
        yield {agent.host: agent for agent in agents}
    finally:
        for agent in agents:
            if agent.process is not None:
                agent.end(signal.SIGKILL)


def up(http: httpx.Client) -> set[str]:
    """Hosts that the API calls up."""
    rows = http.get("/v1/services").json()["services"]
    return {row["host"] for row in rows if row["state"] == "up"}


def is_on(http: httpx.Client, uuid: str, host: str) -> bool:
    """Does the container run on that host, and is nothing at work on it?"""
    row = http.get(f"/v1/containers/{uuid}").json()
    return (row["status"], row["task_state"], row["host"]) == ("Running", None, host)
