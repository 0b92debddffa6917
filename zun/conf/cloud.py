"""What options left out mean: beside Keystone the cloud's services, on a single machine the embedded ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def in_cloud(conf: Any) -> bool:
    """Does Keystone say who asks?"""
    return bool(conf.keystone_authtoken.auth_url)


def placement_driver(conf: Any) -> str:
    """``local`` or ``openstack``."""
    return conf.placement.driver or ("openstack" if in_cloud(conf) else "local")


def network_driver(conf: Any) -> str:
    """``local``, ``kuryr`` or ``direct``."""
    return conf.network.driver or ("kuryr" if in_cloud(conf) else "local")


def volume_drivers(conf: Any) -> Sequence[str]:
    """Names of the volume drivers; the first one makes volumes for ``size``."""
    return conf.volume.driver_list or (["cinder", "local"] if in_cloud(conf) else ["local"])


def image_drivers(conf: Any) -> Sequence[str]:
    """Names of the image drivers that requests may name."""
    return conf.image_driver_list or (["docker", "glance"] if in_cloud(conf) else ["docker"])
