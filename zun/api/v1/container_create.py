"""POST /containers: what a request may ask for, checked in the contract's order (§10.1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncConnection

from zun.api import idempotent
from zun.api.call import Answer, Call, Version
from zun.api.v1 import container_views
from zun.api.v1.container_find import asked
from zun.api.v1.models.containers import CreateLatest
from zun.api.views import location
from zun.conf import cloud
from zun.control import container_image, container_names, registries
from zun.control import container_values as values
from zun.control import containers_create as control
from zun.control.containers_create import NewContainer
from zun.control.idempotency import Claim
from zun.domain import pci
from zun.domain.container import Container
from zun.domain.errors import Forbidden, InvalidParamInVersion, InvalidValue, SchemaValidationError, ValidationError
from zun.domain.image import asked_reference
from zun.domain.lifecycle import Status
from zun.store import candidates

_RULE = "container:create"


async def create(call: Call) -> Answer:
    """202 with the new row; also when no host can take it, then it is ``Error`` (S1.11, S1.15)."""
    return await idempotent.once(call, _create)


async def _create(call: Call, claim: Claim | None) -> Answer:
    new = await checked(call)

    async def keep(connection: AsyncConnection, row: Container) -> None:
        if claim is not None:
            await claim.keep(connection, row.uuid, idempotent.kept(_answer(call, row, new.registry)))

    row = await control.create(call.control, asked(call), new, None if claim is None else keep)
    return _answer(call, row, new.registry)


def _answer(call: Call, row: Container, registry: str | None) -> Answer:
    body = container_views.view(call, row, registry, fresh=True)
    return Answer(body, headers=location(call, "containers", row.uuid))


async def checked(call: Call) -> NewContainer:
    """The request in its newest shape, every check passed that needs no volume and no host."""
    args: CreateLatest = call.args
    given = args.given()
    container = await _plain_values(call, args)
    container = dataclasses.replace(container, security_groups=await _security_groups(call, args.security_groups))
    await control.check_quota(call.control, container)
    _since(call, given, "auto_remove", 3)
    _since(call, given, "runtime", 5, rule="runtime")
    _since(call, given, "hostname", 9)
    networks = await _networks(call, args)
    _since(call, {name: given[name] for name in ("healthcheck",) if given.get(name)}, "healthcheck", 22)
    health = values.healthcheck(args.healthcheck)
    _since(call, {name: given[name] for name in ("mounts",) if given.get(name)}, "mounts", 11)
    mounts = values.mounts([entry.model_dump() for entry in args.mounts or ()])
    _since(call, given, "privileged", 21, rule="privileged")
    if args.image_pull_policy:
        call.policy.enforce(f"{_RULE}:image_pull_policy", call.caller)
    restart = args.restart_policy.model_dump() if args.restart_policy else None
    policy = values.restart_policy(restart, auto_remove=bool(args.auto_remove))
    _since(call, given, "exposed_ports", 24)
    ports = values.exposed_ports(args.exposed_ports)
    _since(call, given, "registry", 31)
    registry = await registries.find(call.control, call.caller, args.registry) if args.registry else None
    host = getattr(args, "host", None)
    if host is not None:
        call.policy.enforce(f"{_RULE}:requested_destination", call.caller)
    container = dataclasses.replace(
        container,
        requested_networks=networks,
        healthcheck=health,
        restart_policy=policy,
        exposed_ports=ports,
        registry_id=registry["id"] if registry else None,
        image_uuid=await container_image.resolve(call.control, call.caller, container.image_driver, args.image),
    )
    shown = registry["uuid"] if registry else None
    return NewContainer(container, mounts, run=args.run, host=host, registry=shown)


async def _plain_values(call: Call, args: CreateLatest) -> Container:
    """What needs nobody else: values in normal form, defaults filled in."""
    conf, caller = call.control.conf, call.caller
    if caller.project_id is None:  # allocation, ports and volumes are a project's
        raise Forbidden("A container belongs to a project, and the token is of none.")
    command, entrypoint = _command(call, args.command), _texts("entrypoint", getattr(args, "entrypoint", None))
    environment = values.environment(_environment(args.environment))
    values.require_executable(
        "command, entrypoint and environment", [*(entrypoint or ()), *(command or ())], environment
    )
    _only_run_in_query(call)
    driver = values.image_driver(args.image_driver, cloud.image_drivers(conf), conf.default_image_driver)
    if driver == "docker":
        asked_reference(args.image)
    await _cpu_policy(call, args.cpu_policy)
    _pci_devices(call, args.hints)
    if args.hostname is not None and len(args.hostname) > 63:
        raise InvalidValue("The hostname cannot be longer than 63 characters.")
    return Container(
        uuid=str(uuid4()),
        name=args.name or container_names.generate(),
        project_id=caller.project_id,
        user_id=caller.user_id,
        image=args.image,
        image_driver=driver,
        status=Status.CREATING,
        command=command,
        entrypoint=entrypoint,
        cpu=conf.default_cpu if args.cpu is None else args.cpu,
        cpu_policy=args.cpu_policy,
        memory=conf.default_memory if args.memory is None else args.memory,
        disk=args.disk or 0,
        workdir=values.workdir(args.workdir),
        hostname=args.hostname,
        environment=environment,
        labels=_labels(args.labels),
        interactive=args.interactive,
        tty=_tty(call, args),
        auto_remove=bool(args.auto_remove),
        auto_heal=args.auto_heal,
        privileged=args.privileged,
        runtime=args.runtime or None,
        image_pull_policy=args.image_pull_policy,
        availability_zone=args.availability_zone,
        hints=args.hints,
    )


def _only_run_in_query(call: Call) -> None:
    unknown = sorted(name for name in call.query if name != "run")
    if unknown:
        names = ", ".join(repr(name[:64]) for name in unknown[:10])
        raise SchemaValidationError(f"Additional properties are not allowed ({names} were unexpected in the query)")


def _pci_devices(call: Call, hints: Mapping[str, Any] | None) -> None:
    """Refused at once, and clearly: no host offers PCI devices."""
    try:
        asked_for = pci.requested(hints)
    except ValueError as error:
        raise ValidationError(str(error)) from error
    known = pci.parse_aliases(call.control.conf.pci.alias)
    for alias in asked_for:
        if alias not in known:
            raise ValidationError(f"The hint pci:{alias[:64]} names no kind of PCI device of this cloud.")
        raise ValidationError(f"PCI devices ({alias[:64]}) are not available: no host offers any.")


async def _cpu_policy(call: Call, asked_for: str) -> None:
    if asked_for != "dedicated":
        return
    async with call.control.db.read() as connection:
        if not await candidates.any_pinning(connection):
            raise ValidationError("cpu_policy dedicated is not available: no host dedicates cores to containers.")


def _command(call: Call, command: Any) -> list[str] | None:
    if isinstance(command, str):
        return values.split_command(command) or None
    return _texts("command", command)


def _texts(what: str, items: Sequence[Any] | None) -> list[str] | None:
    """List elements as texts."""
    return None if items is None else [_text(what, item) for item in items]


def _labels(labels: Mapping[str, Any] | None) -> dict[str, str] | None:
    if labels is None:
        return None
    return {_text("labels", name): _text("labels", value) for name, value in labels.items()}


def _environment(environment: Mapping[str, Any] | None) -> dict[str, str] | None:
    for name, value in (environment or {}).items():
        if not isinstance(value, str):
            raise SchemaValidationError(
                f"Invalid input for field 'environment'. The value of {name!r} has to be a text."
            )
    return _labels(environment)


def _text(what: str, value: Any) -> str:
    text = value if isinstance(value, str) else str(value)
    if "\x00" in text:
        raise SchemaValidationError(f"Invalid input for field '{what}'. A NUL character is not allowed.")
    return text


def _tty(call: Call, args: CreateLatest) -> bool:
    """From 1.20 to 1.35 ``tty`` follows ``interactive`` when that is given."""
    follows = Version(1, 20) <= call.version < Version(1, 36) and "interactive" in args.model_fields_set
    return args.interactive if follows else args.tty


async def _security_groups(call: Call, names: Sequence[str] | None) -> list[str] | None:
    """Ids, duplicates removed, read with the caller's token (S1.4)."""
    if not names:
        return None if names is None else []
    found = await call.control.network.security_groups(call.caller, list(dict.fromkeys(names)))
    return list(dict.fromkeys(found))


async def _networks(call: Call, args: CreateLatest) -> list[dict[str, Any]]:
    """``nets`` as ids; the project's default network when none is named (S1.4)."""
    nets = [net.model_dump(by_alias=True, exclude_none=True) for net in args.nets or ()]
    external = call.policy.check("network:attach_external_network", call.caller)
    found = await call.control.network.resolve(call.caller, nets, external=external)
    return [dataclasses.asdict(network) for network in found]


def _since(call: Call, given: Mapping[str, Any], field: str, minor: int, *, rule: str | None = None) -> None:
    """Refuse a field below its version, and to callers its rule does not allow."""
    if field not in given:
        return
    if call.version < Version(1, minor):
        raise InvalidParamInVersion(
            f"Invalid param {field} because current request version is {call.version}. "
            f"{field} is only supported from version 1.{minor}"
        )
    if rule is not None:
        call.policy.enforce(f"{_RULE}:{rule}", call.caller)
