"""Faults of the node's own work; their text becomes ``status_reason``."""

from __future__ import annotations

from typing import ClassVar

from zun.domain.errors.base import ZunError


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
