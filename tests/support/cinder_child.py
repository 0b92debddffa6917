"""One attach or detach in a process of its own that kills itself (SIGKILL) at a named point.

``python -m tests.support.cinder_child <zun.conf> <database folder> attach|detach <mapping as JSON>``, the point in
ZUN_KILL_AT: ``before:<function>`` or ``after:<function>``. What it prints at the end tells that it was not reached.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.database import make_database
from zun import conf as zun_conf
from zun.domain.container import VolumeMapping
from zun.openstack.cloud import OpenStack
from zun.volume import filesystem
from zun.volume.brick import Brick
from zun.volume.cinder import CinderVolumes
from zun.volume.cinder_api import CinderApi
from zun.volume.connections import Connections

WHERE: dict[str, Any] = {
    "create_attachment": CinderApi,
    "update_attachment": CinderApi,
    "connect": Brick,
    "make": filesystem,
    "mount": filesystem,
    "complete_attachment": CinderApi,
    "begin_detaching": CinderApi,
    "unmount": filesystem,
    "disconnect": Brick,
    "delete_attachment": CinderApi,
}
UP = ("create_attachment", "update_attachment", "connect", "make", "mount", "complete_attachment")
DOWN = ("begin_detaching", "unmount", "disconnect", "delete_attachment")


def arm(point: str) -> None:
    """Wrap the function; nothing of this is in the product."""
    when, _, name = point.partition(":")
    if name == "remove":
        Connections.remove = _die  # type: ignore[assignment]
        return
    real: Callable[..., Any] = getattr(WHERE[name], name)

    async def trapped(*arguments: Any, **named: Any) -> Any:
        if when == "before":
            _die()
        result = await real(*arguments, **named)
        _die()
        return result

    setattr(WHERE[name], name, trapped)


def _die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(conf_file: str, folder: str, verb: str, mapping: str) -> None:
    conf = zun_conf.load(["--config-file", conf_file])
    db, cloud = await make_database(Path(folder)), OpenStack(conf)
    volumes = CinderVolumes(db, conf, cloud.cinder)
    await getattr(volumes, verb)(VolumeMapping(**json.loads(mapping)))
    print("not reached")


if __name__ == "__main__":
    arm(os.environ["ZUN_KILL_AT"])
    asyncio.run(main(*sys.argv[1:]))
