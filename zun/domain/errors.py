"""Every error the product raises on purpose.

    ZunError
    ├── Invalid (400)          what the caller sent is wrong
    │   ├── SchemaValidationError, InvalidValue, InvalidParameterValue, InvalidParamInVersion,
    │   │   ValidationError, InvalidQuotaValue, NoInteractiveFlag, Base64Exception
    │   └── ImageNotFound, VolumeNotUsable, VolumeInUse, VolumeCreateFailed, PortInUse, PortNotUsable,
    │       PortBindingFailed, SecurityGroupCannotBeApplied, SecurityGroupCannotBeRemoved
    ├── Unauthorized (401)
    ├── Forbidden (403)        PolicyNotAuthorized, OverQuota, ExternalNetworkAttachForbidden
    ├── NotFound (404)         ContainerNotFound, NetworkNotFound, VolumeNotFound, RegistryNotFound, …
    ├── NotAcceptable (406), UnsupportedMediaType (415), MethodNotAllowed (405), RequestTimeout (408),
    │                          EventsGone (410), RequestTooLarge (413)
    ├── Conflict (409)         InvalidStateException, ContainerAlreadyExists, ContainerHostNotUp,
    │                          IdempotencyKeyReused, …
    ├── Unavailable (503)      something the product needs does not answer; a retry can help
    └── NodeError              faults of the node's own work; their text becomes ``status_reason``
        └── EngineError, EngineUnreachable, ImagePullFailed, DiskQuotaUnsupported, ClaimFailed, …

Each class knows its HTTP status, its slug and whether a retry can help. Foreign text is never used
as a format string.
"""

from __future__ import annotations

import re
from typing import ClassVar

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z]*|[0-9]+|[a-z]+")


def slug_of(name: str) -> str:
    """``InvalidStateException`` -> ``invalid-state-exception``; ``Base64Exception`` -> ``base-64-exception``."""
    return "-".join(word.lower() for word in _WORDS.findall(name))


class ZunError(Exception):
    """Base of all; ``message`` is meant for the person who reads it."""

    status: ClassVar[int] = 500
    slug: ClassVar[str] = ""
    retryable: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "slug" not in cls.__dict__ and cls.status < 500:
            cls.slug = slug_of(cls.__name__)

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message


# -- 400 -----------------------------------------------------------------------------------------


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


# -- 401, 403 ------------------------------------------------------------------------------------


class Unauthorized(ZunError):
    """No token, or one that is not valid."""

    status = 401


class Forbidden(ZunError):
    """The caller may not do this."""

    status = 403


class PolicyNotAuthorized(Forbidden):
    """A policy rule says no."""

    def __init__(self, rule: str) -> None:
        super().__init__(f"Policy doesn't allow {rule} to be performed.")


class OverQuota(Forbidden):
    """A limit of the project would be passed."""


class ExternalNetworkAttachForbidden(Forbidden):
    """An external network needs an admin."""


# -- 404 -----------------------------------------------------------------------------------------


class NotFound(ZunError):
    """The thing named does not exist, or not for this caller."""

    status = 404


class ContainerNotFound(NotFound):
    """No such container."""

    def __init__(self, ident: str) -> None:
        super().__init__(f"Container {ident} could not be found.")


class NetworkNotFound(NotFound):
    """No such network."""

    def __init__(self, ident: str) -> None:
        super().__init__(f"Network {ident} could not be found.")


class PortNotFound(NotFound):
    """No such port."""

    def __init__(self, ident: str) -> None:
        super().__init__(f"Port {ident} could not be found.")


class VolumeNotFound(NotFound):
    """No such volume."""

    def __init__(self, ident: str) -> None:
        super().__init__(f"Volume {ident} could not be found.")


class RegistryNotFound(NotFound):
    """No such registry."""

    def __init__(self, ident: str) -> None:
        super().__init__(f"Registry {ident} could not be found.")


class RequestedHostNotFound(NotFound):
    """The host asked for does not exist."""

    def __init__(self, host: str) -> None:
        super().__init__(f"The requested host {host} could not be found.")


class ComputeNodeNotFound(NotFound):
    """No such host."""

    def __init__(self, ident: str) -> None:
        super().__init__(f"Compute node {ident} could not be found.")


class ZunServiceNotFound(NotFound):
    """No such service."""

    def __init__(self, host: str, binary: str) -> None:
        super().__init__(f"Zun service {binary} on host {host} could not be found.")


class ResourceNotFound(NotFound):
    """No such action, or another unnamed thing."""


class RouteNotFound(NotFound):
    """No route for this path (empty slug by contract)."""

    slug = ""


# -- 405, 406, 413, 415 --------------------------------------------------------------------------


class MethodNotAllowed(ZunError):
    """The path exists, the method does not."""

    status = 405
    slug = ""


class NotAcceptable(ZunError):
    """The microversion, or the Accept header, cannot be served."""

    status = 406
    slug = ""


class EventsGone(ZunError):
    """What a listener wants to go on from is not kept any more."""

    status = 410


class RequestTooLarge(ZunError):
    """The body is larger than the API takes."""

    status = 413


class RequestTimeout(ZunError):
    """The body did not arrive in time."""

    status = 408


class UnsupportedMediaType(ZunError):
    """Only JSON is taken here."""

    status = 415
    slug = ""


# -- 409 -----------------------------------------------------------------------------------------


class Conflict(ZunError):
    """The request does not fit the present state."""

    status = 409


class InvalidStateException(Conflict):
    """The container's status does not permit the operation."""

    def __init__(self, operation: str, uuid: str, status: str) -> None:
        super().__init__(f"Cannot {operation} container {uuid} in {status} state")


class IdempotencyKeyReused(Conflict):
    """The key came with another request before."""

    def __init__(self) -> None:
        super().__init__("The Idempotency-Key was used for another request: version, query or body differ.")


class IdempotencyKeyInUse(Conflict):
    """The same request is still at work."""

    retryable = True

    def __init__(self) -> None:
        super().__init__("A request with this Idempotency-Key is still at work. Send it again later.")


class ContainerAlreadyExists(Conflict):
    """The name is taken (``unique_container_name_scope``)."""

    def __init__(self, name: str) -> None:
        super().__init__(f"A container with name {name.lower()} already exists.")


class ContainerHostNotUp(Conflict):
    """The container's host does not answer; ``host`` is named for admins only."""

    def __init__(self, uuid: str, host: str | None = None) -> None:
        where = f" {host}" if host else ""
        super().__init__(f"Container {uuid} host{where} is not up.")


class NetworkAlreadyExists(Conflict):
    """The network was made before."""

    def __init__(self, ident: str) -> None:
        super().__init__(f"Network {ident} already exists.")


class ImageAlreadyExists(Conflict):
    """The image record exists on that host."""


# -- 503 -----------------------------------------------------------------------------------------


class Unavailable(ZunError):
    """A service the product needs does not answer now."""

    status = 503
    retryable = True


class ServiceUnavailable(Unavailable):
    """Another OpenStack service did not answer, or answered with a fault of its own; ``service`` names it."""

    def __init__(self, service: str, detail: str) -> None:
        super().__init__(f"{service} is not available: {detail.rstrip('.')}.")
        self.service = service


class HostUnreachable(Unavailable):
    """The node did not answer a call in time."""


class BrokerUnreachable(HostUnreachable):
    """The node could not be asked: the message broker does not answer."""


class TooManyListeners(Unavailable):
    """As many streams are open as one process serves; another may have room, or this one later."""

    retryable = True


class PlacementUnavailable(Unavailable):
    """Placement did not answer; never reported as "not enough hosts"."""


# -- on the node: the text becomes status_reason --------------------------------------------------


class NodeError(ZunError):
    """A fault of work on the node. ``keeps_host``: is the row's host kept after the failure?"""

    keeps_host: ClassVar[bool] = False


class EngineError(NodeError):
    """The engine refused; the text says why, ``engine`` which one."""

    def __init__(self, text: str, *, engine: str = "Docker") -> None:
        super().__init__(f"{engine} internal error: {text.rstrip('.')}.")
        self.text = text


class EngineNotFound(EngineError):
    """The engine, answering, does not have the thing named."""


class EngineConflict(EngineError):
    """The engine's state does not permit the call (already paused, not running, …)."""


class PathRefused(EngineError):
    """A path within a container cannot be read or written, or what is written is no archive: the text says which."""


class EngineUnreachable(EngineError):
    """No answer from the engine: its state is unknown, nothing may be concluded."""

    retryable = True


class ImageFailed(NodeError):
    """The image step failed (S1.28): missing, refused, or the pull stalled."""

    keeps_host = True


class ImagePullFailed(ImageFailed):
    """The registry was not reachable or the pull broke off; a retry can help."""

    retryable = True


class ImageStoreFailed(NodeError):
    """An image of a container could not be kept; a retry cannot help."""

    keeps_host = True


class StartFailed(EngineError):
    """The engine refused to start what it had made."""

    keeps_host = True


class SandboxFailed(NodeError):
    """A capsule's sandbox could not be made; ``text`` is the engine's, or its network plug-in's."""

    def __init__(self, text: str) -> None:
        super().__init__(f"The sandbox of the capsule could not be made: {text.rstrip('.')}.")
        self.text = text


class InitContainerFailed(NodeError):
    """An init container ended with a fault, or not in time, and is not tried again: the capsule cannot run (S2.13)."""

    keeps_host = True


KURYR = "Kuryr (the network plug-in of Docker)"


class PluginFailed(StartFailed):
    """The engine's network plug-in (Kuryr) failed a call, or was not reached by the engine; a retry can help."""

    retryable = True

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.message = f"{KURYR} failed: {text.rstrip('.')}."


class PluginSilent(EngineUnreachable):
    """The engine answers, yet did not end a call in which its network plug-in (Kuryr) has a part."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"{KURYR} did not do its part within {seconds:g} seconds, while Docker itself answers")
        self.message = f"{self.text}."


class DiskQuotaUnsupported(NodeError):
    """``disk`` was asked for and the storage driver cannot limit it."""

    def __init__(self) -> None:
        super().__init__("Your host does not support disk quota feature.")


class ClaimFailed(NodeError):
    """The node's inventory no longer has room."""

    def __init__(self, reasons: str) -> None:
        super().__init__(f"Insufficient compute resources: {reasons}.")


class VolumeAttachFailed(NodeError):
    """A volume could not be made available on the node."""


class VolumeNotReady(VolumeAttachFailed):
    """The volume did not become available in time (S1.27)."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"Volumes did not reach available status after {seconds} seconds")


class VolumeDetachFailed(NodeError):
    """A volume could not be taken off the node; it still is there (S3.14)."""

    keeps_host = True


class VolumeDeleteFailed(NodeError):
    """A volume made for a container could not be deleted, or not in time (S3.9)."""

    keeps_host = True


class NetworkSetupFailed(NodeError):
    """The container's network could not be set up."""


class OperationTimedOut(NodeError):
    """An operation outlived its deadline."""
