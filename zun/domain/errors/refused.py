"""401 to 415: the caller may not, or what is asked for does not exist or does not fit."""

from __future__ import annotations

from zun.domain.errors.base import ZunError

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
