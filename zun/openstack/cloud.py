"""The cloud beside us: our account and the services, opened once a process."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from zun.openstack.auth import ServiceAuth
from zun.openstack.client import ServiceClient

_PLACEMENT_VERSION = "placement 1.38"
"""The first that knows consumer types (Xena)."""
_CINDER_VERSION = "volume 3.69"
"""Yoga: paths need no project id, and a volume says whether its targets are shared."""
_PROJECT = re.compile(r"(?<=/v3)/[^/]+$")


class OpenStack:
    """Nothing is connected before it is used."""

    def __init__(self, conf: Any) -> None:
        """Raises ConfigError."""
        self.auth = ServiceAuth(conf)
        self.keystone = ServiceClient("Keystone", ["identity"], self.auth, _keystone_options(conf), version="/v3")
        self.placement = ServiceClient(
            "Placement",
            ["placement"],
            self.auth,
            conf.placement_client,
            headers={"OpenStack-API-Version": _PLACEMENT_VERSION},
        )
        self.neutron = ServiceClient("Neutron", ["network"], self.auth, conf.neutron_client)
        self.cinder = ServiceClient(
            "Cinder",
            ["block-storage", "volumev3", "block-store"],
            self.auth,
            conf.cinder_client,
            headers={"OpenStack-API-Version": _CINDER_VERSION},
            as_service=True,  # without a service token Cinder asks Nova whether we may detach
            trim=_PROJECT,  # ours: a caller's token is for another project
        )
        self.glance = ServiceClient("Glance", ["image"], self.auth, conf.glance_client)

    async def close(self) -> None:
        """Close all connections."""
        for client in (self.keystone, self.placement, self.neutron, self.cinder, self.glance):
            await client.close()
        await self.auth.close()


def _keystone_options(conf: Any) -> Any:
    """[keystone_authtoken] under the names that the groups of the other services have."""
    options = conf.keystone_authtoken
    return SimpleNamespace(
        region_name=options.region_name,
        endpoint_type=options.interface,
        endpoint_override=options.endpoint_override,
        ca_file=options.cafile,
        cert_file=options.certfile,
        key_file=options.keyfile,
        insecure=options.insecure,
        timeout=options.timeout or 10.0,
    )
