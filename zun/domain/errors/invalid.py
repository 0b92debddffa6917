"""400: what the caller sent is wrong."""

from __future__ import annotations

from zun.domain.errors.base import ZunError


class Invalid(ZunError):
    """The request is wrong and has to change."""

    status = 400


class SchemaValidationError(Invalid):
    """A field of the body or of the query breaks its schema."""


class ValidationError(Invalid):
    """A value is well formed and still not allowed."""


class InvalidValue(Invalid):
    """A value or parameter is not understood."""


class InvalidParameterValue(Invalid):
    """A list parameter names something that does not exist."""


class InvalidParamInVersion(Invalid):
    """A field is not part of the microversion asked for."""


class InvalidQuotaValue(Invalid):
    """A quota limit is not acceptable."""


class NoInteractiveFlag(Invalid):
    """Attach needs a container made with ``interactive``."""


class Base64Exception(Invalid):
    """Data is not base64."""


class ImageNotFound(Invalid):
    """The image does not exist (400 by contract)."""


class VolumeNotUsable(Invalid):
    """The volume belongs to somebody else."""


class VolumeInUse(Invalid):
    """The volume is attached elsewhere."""


class VolumeCreateFailed(Invalid):
    """No volume could be made."""


class PortInUse(Invalid):
    """The port belongs to a device already."""


class PortNotUsable(Invalid):
    """The port belongs to somebody else, or is at work."""


class PortBindingFailed(Invalid):
    """No host could bind the port."""


class SecurityGroupCannotBeApplied(Invalid):
    """The group is there already, or a port takes none."""


class SecurityGroupCannotBeRemoved(Invalid):
    """The container does not have the group."""
