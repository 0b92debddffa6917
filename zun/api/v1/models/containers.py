"""What requests on containers may hold: one model an operation, smaller ones for older versions."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

from pydantic import Field, create_model, model_validator

from zun.api.call import Call, Version
from zun.api.v1.models.common import (
    AnyList,
    AnyObject,
    Arguments,
    Free,
    HostName,
    Idents,
    ImageName,
    JsonBoolean,
    Name,
    Number,
    OneOf,
    Short,
    StrictBoolean,
    Text,
    Whole,
    WideBoolean,
    refuse,
)

Plain = Annotated[str, Text(0, None, r"^[^\x00]*$")]
"""Any text without NUL, which neither databases nor engines take."""


Few = Field(max_length=64)
"""Bound of lists whose every entry costs work outside: volumes made, ports and groups looked up."""


class RestartPolicy(Arguments):
    """``restart_policy``."""

    Name: Annotated[str, OneOf(("no", "always", "on-failure", "unless-stopped"))]
    MaximumRetryCount: Annotated[int, Whole(0)] | None = None


class Net(Arguments):
    """One entry of ``nets``: exactly one of network and port."""

    network: Short | None = None
    port: Short | None = None
    v4_fixed_ip: Free | None = Field(None, alias="v4-fixed-ip")
    v6_fixed_ip: Free | None = Field(None, alias="v6-fixed-ip")

    @model_validator(mode="after")
    def _consistent(self) -> Net:
        if (self.network is None) == (self.port is None):
            refuse("exactly one of 'network' and 'port' has to be given")
        for value, version in ((self.v4_fixed_ip, 4), (self.v6_fixed_ip, 6)):
            if value is not None:
                require_address(value, version)
        return self


class MountEntry(Arguments):
    """One entry of ``mounts``; what its members mean is checked where they are used."""

    type: Free | None = None
    source: Plain | None = None
    destination: Plain | None = None
    size: Free | Annotated[int, Whole()] | None = None


class CreateUntil119(Arguments):
    """Create at 1.1 to 1.19: ``command`` is one text."""

    run: WideBoolean = False
    name: Name | None = None
    image: ImageName
    command: Any = None
    cpu: Any = None
    cpu_policy: Annotated[str, OneOf(("dedicated", "shared"))] = "shared"
    memory: Any = None
    disk: Any = None
    workdir: Plain | None = None
    auto_remove: JsonBoolean | None = None
    image_pull_policy: (
        Annotated[str, OneOf(("never", "always", "ifnotpresent", "Never", "Always", "IfNotPresent"))] | None
    ) = None
    labels: AnyObject | None = None
    environment: AnyObject | None = None
    restart_policy: RestartPolicy | None = None
    interactive: StrictBoolean = False
    tty: StrictBoolean = False
    image_driver: Free | None = None
    security_groups: Annotated[list[Short], Few] | None = None
    hints: AnyObject | None = None
    nets: Annotated[list[Net], Few] | None = None
    mounts: Annotated[list[MountEntry], Few] | None = None
    runtime: Annotated[str, Text(0, 255, r"^[^\x00]*$")] | None = None
    hostname: HostName | None = None
    availability_zone: Short | None = None
    auto_heal: StrictBoolean = False
    privileged: StrictBoolean = False
    healthcheck: AnyObject | None = None
    exposed_ports: AnyObject | None = None
    registry: Name | None = None

    @model_validator(mode="after")
    def _consistent(self) -> CreateUntil119:
        if self.security_groups and self.exposed_ports:
            refuse("'security_groups' and 'exposed_ports' cannot be given together")
        return self


class CreateUntil138(CreateUntil119):
    """From 1.20: ``command`` is a list."""

    command: Any = None


class CreateUntil139(CreateUntil138):
    """From 1.39: ``host``."""

    host: HostName | None = None


class CreateLatest(CreateUntil139):
    """From 1.40: ``entrypoint``."""

    entrypoint: AnyList | None = None


class Limits(NamedTuple):
    """Bounds of amounts, from the configuration: cores, MiB, GiB."""

    cpu: tuple[float, float]
    memory: tuple[int, int]
    disk: tuple[int, int]


def limits(conf: Any) -> Limits:
    """The operator's bounds."""
    return Limits(
        (conf.minimum_cpus, conf.maximum_cpus),
        (conf.minimum_memory, conf.maximum_memory),
        (conf.minimum_disk, conf.maximum_disk),
    )


@lru_cache(maxsize=64)
def _bounded(base: type[Arguments], bounds: Limits, fields: tuple[str, ...]) -> type[Arguments]:
    """``base`` with the operator's bounds on its amounts."""
    kinds: dict[str, Any] = {
        "cpu": Annotated[float, Number(*bounds.cpu)] | None,
        "memory": Annotated[int, Whole(*bounds.memory)] | None,
        "disk": Annotated[int, Whole(*bounds.disk)] | None,
    }
    if issubclass(base, CreateUntil138):
        kinds["command"] = AnyList | None
    elif issubclass(base, CreateUntil119):
        kinds["command"] = Plain | None
    chosen = {name: (kind, None) for name, kind in kinds.items() if name in fields or name == "command"}
    return create_model(base.__name__, __base__=base, **chosen)  # type: ignore[call-overload,no-any-return]


def create(call: Call) -> type[Arguments]:
    """The create model of the version asked for."""
    base: type[Arguments] = CreateLatest
    for below, older in (
        (Version(1, 20), CreateUntil119),
        (Version(1, 39), CreateUntil138),
        (Version(1, 40), CreateUntil139),
    ):
        if call.version < below:
            base = older
            break
    return _bounded(base, limits(call.control.conf), ("cpu", "memory", "disk"))


class Update(Arguments):
    """PATCH and resize_container; null is taken as not given."""

    name: Name | None = None
    auto_heal: StrictBoolean | None = None
    cpu: Any = None
    memory: Any = None


def update(call: Call) -> type[Arguments]:
    """The update model with the operator's bounds."""
    return _bounded(Update, limits(call.control.conf), ("cpu", "memory"))


class Rename(Arguments):
    """Rename, up to 1.13."""

    name: Name


class Delete(Arguments):
    """DELETE."""

    force: WideBoolean = False
    stop: WideBoolean = False
    all_projects: WideBoolean = False


class DeleteSeveral(Delete):
    """DELETE of the collection."""

    ids: Idents


def require_address(text: str, version: int | None = None) -> None:
    """Reject what is not an address (of that IP version)."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        refuse(f"{text[:64]!r} is not an address")
    if version is not None and found.version != version:
        refuse(f"{text[:64]!r} is not an IPv{version} address")
