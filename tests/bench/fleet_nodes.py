"""Many nodes in one process: agents on simulated engines, each with its own connections to database and broker. What
they share is the process: its event loop, its configuration, and the statements it has compiled.

python -m tests.bench.fleet_nodes ZUN_CONF FIRST COUNT   -> prints ``ready`` once all work; ends with SIGTERM.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

import uvloop
from sqlalchemy.util import LRUCache

from zun import conf as configuration
from zun import wiring
from zun.cli.process import allow_connections, set_up_logs
from zun.domain.vitals import Vitals
from zun.parts import build

STARTS_AT_ONCE = 16


class HostOptions:
    """The configuration, but for the name of the host: parsing it a thousand times would tell nothing."""

    def __init__(self, conf: Any, host: str) -> None:
        self._conf = conf
        self.host = host

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conf, name)

    def __getitem__(self, name: str) -> Any:
        return self._conf[name]


class OneCache(LRUCache[Any, Any]):
    """Statements as text, for all nodes of this process: each would compile the same ones. The key without the
    dialect, which is one object a connection pool and the same for all."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key[1:], default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key[1:], value)


def host_name(number: int) -> str:
    """Of the node so numbered."""
    return f"node-{number:05}"


async def main(file: str, first: int, count: int) -> None:
    """Run the agents of the nodes ``first`` … ``first + count - 1`` until SIGTERM. Raises what ends one of them."""
    conf = configuration.load(["--config-file", file], prog="zun-compute")
    set_up_logs(conf)
    allow_connections()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    starting = asyncio.Semaphore(STARTS_AT_ONCE)
    waiting = {host_name(number) for number in range(first, first + count)}

    def began(host: str) -> None:
        waiting.discard(host)
        starting.release()
        if not waiting:
            print("ready", flush=True)

    statements = OneCache(500)

    async def node(host: str) -> None:
        await starting.acquire()
        async with build(HostOptions(conf, host)) as parts:
            parts.db._reader.sync_engine._compiled_cache = statements
            await wiring.run_agent(parts, Vitals(), lambda: began(host))

    nodes = [asyncio.create_task(node(host), name=host) for host in sorted(waiting)]
    stopping = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait({*nodes, stopping}, return_when=asyncio.FIRST_COMPLETED)
    for task in (*nodes, stopping):
        task.cancel()
    await asyncio.gather(*nodes, stopping, return_exceptions=True)
    for task in done - {stopping}:
        await task  # it raises what ended it


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
