"""Arguments of services."""

from __future__ import annotations

from zun.api.v1.models.common import Arguments, HostName, Short, StrictBoolean


class ServiceRef(Arguments):
    """Names a service."""

    host: HostName
    binary: Short


class ServiceDisable(ServiceRef):
    """``PUT /services/disable``."""

    disabled_reason: Short | None = None


class ServiceForceDown(ServiceRef):
    """``PUT /services/force_down``."""

    forced_down: StrictBoolean
