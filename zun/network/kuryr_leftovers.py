"""What Kuryr leaves on this host: an endpoint that it made though the engine never heard so, or that the engine could
not have it take away. The engine does not come back to either; the port's device stays, in the way of the next one.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zun.domain.errors import NetworkSetupFailed, ServiceUnavailable

LOG = logging.getLogger(__name__)

_DEVICES = Path("/sys/class/net")


class KuryrLeftovers:
    """Removes devices of ports that no running container has."""

    def __init__(self, conf: Any) -> None:
        self._database = conf.network.ovsdb_connection

    def there(self, port_ids: Sequence[str]) -> Sequence[str]:
        """Names of the devices that this host has of these ports."""
        return [name for name in (f"tap{port_id[:11]}" for port_id in port_ids) if (_DEVICES / name).exists()]

    async def remove(self, port_ids: Sequence[str]) -> None:
        """From the switch and the host. Gone is success; without root's rights nothing can be done, which is told."""
        devices = self.there(port_ids)
        if not devices:
            return
        if os.geteuid():
            LOG.warning("action=unplug devices=%s result=left reason=not root", ",".join(devices))
            return
        from pyroute2.netlink.exceptions import NetlinkError

        from zun.plumbing import links
        from zun.plumbing.ovs import OpenVSwitch

        try:
            await OpenVSwitch(self._database, "").detach(devices)
        except (FileNotFoundError, NetworkSetupFailed, ServiceUnavailable) as error:  # perhaps a Linux bridge has them
            LOG.warning("action=unplug devices=%s result=left on the switch reason=%s", ",".join(devices), error)
        for device in devices:
            try:
                await asyncio.to_thread(links.remove_pair, device)
            except (NetlinkError, OSError) as error:
                LOG.warning("action=unplug device=%s result=left reason=%s", device, error)
        LOG.info("action=unplug devices=%s result=removed reason=left over by Kuryr", ",".join(devices))
