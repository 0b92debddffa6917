"""What the values of a capsule's template mean: normal forms, and refusals where an engine would refuse later. Pure.

``spec`` and ``metadata`` come with their schema checked; every refusal names the place within the template.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from zun.control import container_values as values
from zun.domain.capsule import Entry, Mount, Template, Volume
from zun.domain.errors import Invalid, InvalidValue
from zun.domain.image import asked_reference

UNMOUNTED = "volume mount parameters is invalid."
"""Clients know this text."""


def template(asked: Mapping[str, Any], *, may_choose_pull: bool) -> Template:
    """``asked`` in normal form. ``may_choose_pull``: else pull policies are dropped. Raises InvalidValue."""
    metadata, spec = asked["metadata"], asked["spec"]
    containers = _entries("containers", spec["containers"], may_choose_pull=may_choose_pull)
    inits = _entries("initContainers", spec.get("initContainers") or (), may_choose_pull=may_choose_pull)
    return Template(
        containers,
        inits,
        _volumes(spec.get("volumes") or (), [*inits, *containers]),
        name=metadata.get("name"),
        labels=_texts("labels", metadata.get("labels")),
        annotations=_texts("annotations", metadata.get("annotations")),
        restart=spec.get("restartPolicy") or asked.get("restartPolicy") or "Always",
        availability_zone=asked.get("availabilityZone"),
        runtime=spec.get("runtime"),
    )


def _entries(what: str, asked: Sequence[Mapping[str, Any]], *, may_choose_pull: bool) -> list[Entry]:
    return [
        _entry(f"template.spec.{what}.{place}", one, may_choose_pull=may_choose_pull) for place, one in enumerate(asked)
    ]


def _entry(place: str, asked: Mapping[str, Any], *, may_choose_pull: bool) -> Entry:
    requests = asked["resources"]["requests"]
    with _at(f"{place}.image"):
        asked_reference(asked["image"])
    with _at(f"{place}.env"):
        environment = values.environment(asked["env"])
    command = [*asked["command"], *asked["args"]]
    with _at(f"{place}.command"):
        values.require_executable("command, args and env", command, environment)
    with _at(f"{place}.workDir"):
        workdir = values.workdir(asked["workDir"])
    policy = (asked["imagePullPolicy"] or "always").lower() if may_choose_pull else "always"
    return Entry(
        image=asked["image"],
        command=command,
        environment=environment,
        workdir=workdir,
        pull_policy=policy,
        interactive=asked["stdin"],
        tty=asked["tty"],
        cpu=requests["cpu"] or 0.0,
        memory=requests["memory"] or 0,
        ports=list(dict.fromkeys(f"{port['containerPort']}/{port['protocol'].lower()}" for port in asked["ports"])),
        mounts=_mounts(f"{place}.volumeMounts", asked["volumeMounts"]),
    )


def _mounts(place: str, asked: Sequence[Mapping[str, Any]]) -> list[Mount]:
    found = []
    for number, one in enumerate(asked):
        path = one["mountPath"]
        if not path.startswith("/") or not path.strip("/"):
            raise InvalidValue(f"{place}.{number}.mountPath: '{path[:200]}' has to be an absolute path below '/'.")
        if len(path.encode()) >= values.PATH_BYTES:
            raise InvalidValue(f"{place}.{number}.mountPath has to be shorter than {values.PATH_BYTES} bytes.")
        found.append(Mount(one["name"], path, one["readOnly"]))
    for path, times in Counter(mount.path.rstrip("/") for mount in found).items():
        if times > 1:
            raise InvalidValue(f"{place}: two mounts have the same mountPath '{path[:200]}'.")
    return found


def _volumes(asked: Sequence[Mapping[str, Any]], entries: Sequence[Entry]) -> list[Volume]:
    mounted = {mount.volume for entry in entries for mount in entry.mounts}
    found: dict[str, Volume] = {}
    for number, one in enumerate(asked):
        name, cinder = one["name"], one["cinder"]
        if name in found:
            raise InvalidValue(f"template.spec.volumes.{number}.name: two volumes are named '{name}'.")
        if name not in mounted:
            raise InvalidValue(f"{UNMOUNTED} template.spec.volumes.{number}: no container mounts '{name}'.")
        found[name] = Volume(
            name, str(uuid4()), cinder["volumeID"] or None, cinder["size"] or None, cinder["autoRemove"]
        )
    return list(found.values())


def _texts(what: str, asked: Mapping[str, Any] | None) -> dict[str, str] | None:
    if asked is None:
        return None
    return {name: value if isinstance(value, str) else str(value) for name, value in asked.items()}


@contextmanager
def _at(place: str) -> Iterator[None]:
    try:
        yield
    except Invalid as error:
        raise InvalidValue(f"{place}: {error.message}") from error
