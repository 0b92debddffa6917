"""The messages and methods of CRI and of containerd's own services, from a descriptor set.

No generated code: that refuses a protobuf older than its compiler's. And a pool of our own: the default one has one
copy of ``runtime.v1`` only. ``protocol.desc`` is made by ``scripts/gen_cri_protocol.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

CRI = "runtime.v1"
EVENTS = "containerd.services.events.v1"
CONTENT = "containerd.services.content.v1"
CONTAINERS = "containerd.services.containers.v1"
TASKS = "containerd.services.tasks.v1"
DESCRIPTORS = "protocol.desc"


def _pool() -> Any:
    known = descriptor_pb2.FileDescriptorSet.FromString(files(__package__).joinpath(DESCRIPTORS).read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for one in known.file:
        pool.Add(one)
    return pool


_POOL = _pool()


def message(name: str) -> Any:
    """The class of a message of CRI, or of the one with this full name."""
    full = name if "." in name else f"{CRI}.{name}"
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(full))


def number(enum: str, value: str) -> int:
    """The number of an enum's value in CRI."""
    found: int = _POOL.FindEnumTypeByName(f"{CRI}.{enum}").values_by_name[value].number
    return found


class Method:
    """One method: how its request is made, and how it is called on a channel."""

    def __init__(self, descriptor: Any) -> None:
        self.path = f"/{descriptor.containing_service.full_name}/{descriptor.name}"
        self.request = message_factory.GetMessageClass(descriptor.input_type)
        self._answer = message_factory.GetMessageClass(descriptor.output_type)
        self._streams = bool(descriptor.server_streaming)

    def on(self, channel: Any, path: str | None = None) -> Callable[..., Any]:
        """The call; ``path``: of the same method under another name."""
        make = channel.unary_stream if self._streams else channel.unary_unary
        call: Callable[..., Any] = make(
            path or self.path,
            request_serializer=self.request.SerializeToString,
            response_deserializer=self._answer.FromString,
        )
        return call


def _methods(*services: str) -> Mapping[str, Method]:
    found = {}
    for service in services:
        for one in _POOL.FindServiceByName(service).methods:
            found[one.name] = Method(one)
    return found


def _records(service: str) -> Mapping[str, Method]:
    """Of containerd's own records: all of these services have methods of the same names."""
    return {f"{service.rpartition('.')[2]}.{name}": method for name, method in _methods(service).items()}


METHODS = {
    **_methods(f"{CRI}.RuntimeService", f"{CRI}.ImageService", f"{EVENTS}.Events", f"{CONTENT}.Content"),
    **_records(f"{CONTAINERS}.Containers"),
    **_records(f"{TASKS}.Tasks"),
}
"""By name: ``RunPodSandbox``, ``Containers.Get`` …"""
