"""The capsule template, as requests may hold it (contract §11): every fault is named with its place."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any

import orjson
from pydantic import BeforeValidator, ConfigDict, Field, create_model, model_validator

from zun.api import decoding
from zun.api.call import Call
from zun.api.v1.models.common import (
    AnyObject,
    Arguments,
    Check,
    FreeBoolean,
    Idents,
    ImageName,
    Name,
    Number,
    OneOf,
    Short,
    StrictBoolean,
    Text,
    Whole,
    refuse,
)
from zun.api.v1.models.containers import Few, Limits, Net, Plain, limits
from zun.domain.capsule import POLICIES
from zun.domain.errors import SchemaValidationError

_POLICY = OneOf(tuple(POLICIES))
_TOLERANT = ConfigDict(extra="ignore", populate_by_name=False, hide_input_in_errors=True)


class _Words(Check):
    """A list of texts; null ones are left out."""

    def check(self, value: Any) -> list[str]:
        if not isinstance(value, list):
            refuse("it is not of type 'array'")
        for place, word in enumerate(value):
            if word is not None and not isinstance(word, str):
                refuse(f"element {place} is not of type 'string', 'null'")
        return [word for word in value if word is not None]

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": ["string", "null"]}}


class _Environment(Check):
    """An object whose values are texts, or null for none."""

    def check(self, value: Any) -> dict[str, str] | None:
        if value is None:
            return None
        if not isinstance(value, dict):
            refuse("it is not of type 'object', 'null'")
        for name, text in value.items():
            if not isinstance(text, str):
                refuse(f"the value of {name[:64]!r} is not of type 'string'")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": ["object", "null"], "additionalProperties": {"type": "string"}}


Words = Annotated[list[str], _Words()]


class Port(Arguments):
    """One entry of ``ports``; ``hostPort`` and ``name`` mean nothing here."""

    name: Name | None = None
    containerPort: Annotated[int, Whole(1, 65535)]
    hostPort: Annotated[int, Whole(0, 65535)] = 0
    protocol: Annotated[str, OneOf(("TCP", "UDP"))] = "TCP"


class VolumeMount(Arguments):
    """Where a container has a volume of the capsule."""

    name: Name
    mountPath: Plain
    readOnly: StrictBoolean = False


class Cinder(Arguments):
    """A volume: exactly one of its id and the size of a new one, GiB."""

    volumeID: Annotated[str, Text(36, 36)] = ""
    size: Annotated[int, Whole(1, 1_000_000)] = 0
    autoRemove: StrictBoolean = False

    @model_validator(mode="after")
    def _one(self) -> Cinder:
        if bool(self.volumeID) == bool(self.size):
            refuse("exactly one of 'volumeID' and 'size' has to be given")
        return self


class Volume(Arguments):
    """One entry of ``volumes``."""

    name: Name
    cinder: Cinder


class Requests(Arguments):
    """``resources.requests``; the operator's bounds are put in by ``create``."""

    cpu: Any = None
    memory: Any = None


class Resources(Arguments):
    """``resources``."""

    requests: Requests = Requests()


class Entry(Arguments):
    """One container; only ``image`` is required, and ``name`` means nothing."""

    name: Name | None = None
    image: ImageName
    command: Words = []
    args: Words = []
    env: Annotated[dict[str, str] | None, _Environment()] = None
    workDir: Plain | None = None
    imagePullPolicy: (
        Annotated[str, OneOf(("never", "always", "ifnotpresent", "Never", "Always", "IfNotPresent"))] | None
    ) = None
    stdin: StrictBoolean = False
    tty: StrictBoolean = False
    resources: Resources = Resources()
    ports: Annotated[list[Port], Few] = []
    volumeMounts: Annotated[list[VolumeMount], Few] = []


class InitEntry(Entry):
    """One init container: as any container, but members nobody knows are ignored."""

    model_config = _TOLERANT


class Metadata(Arguments):
    """``metadata``; other members are ignored."""

    model_config = _TOLERANT

    name: Name | None = None
    labels: AnyObject | None = None
    annotations: AnyObject | None = None


class Spec(Arguments):
    """``spec``; other members are ignored. ``runtime`` and ``nets`` as in requests for containers."""

    model_config = _TOLERANT

    containers: Annotated[list[Entry], Field(min_length=1, max_length=64)]
    initContainers: Annotated[list[InitEntry], Few] | None = None
    volumes: Annotated[list[Volume], Few] | None = None
    restartPolicy: Annotated[str, _POLICY] = ""
    runtime: Annotated[str, Text(1, 255, r"^[a-zA-Z0-9][a-zA-Z0-9_.-]*$")] | None = None
    nets: Annotated[list[Net], Few] | None = None


class Template(Arguments):
    """The template; ``restartPolicy`` belongs in ``spec``, where it wins."""

    kind: Annotated[str, OneOf(("capsule", "Capsule"))]
    capsuleVersion: Annotated[str, OneOf(("beta", "Beta"))] = "beta"
    metadata: Metadata
    restartPolicy: Annotated[str, _POLICY] = ""
    availabilityZone: Short | None = None
    spec: Spec


class CapsuleCreate(Arguments):
    """The body of a create."""

    template: Template


class CapsuleDelete(Arguments):
    """The query of a delete; what else is there is ignored."""

    model_config = _TOLERANT

    all_projects: FreeBoolean = False


class CapsuleDeleteSeveral(Arguments):
    """DELETE of the collection."""

    ids: Idents
    all_projects: FreeBoolean = False


def _parsed(value: Any) -> Any:
    """A template given as JSON text is what the text says."""
    if not isinstance(value, str):
        return value
    raw = value.encode()
    try:
        found = orjson.loads(raw)
        decoding.check_tree(found, raw, any_text=False)
    except orjson.JSONDecodeError as error:
        refuse(f"the text is not valid JSON: {error}")
    except SchemaValidationError as error:
        refuse(error.message)
    return found


@lru_cache(maxsize=16)
def _bounded(bounds: Limits) -> type[Arguments]:
    """The create model with the operator's bounds on amounts, all the way down to where they are."""

    many: Any = list

    def narrowed(base: type[Arguments], **fields: Any) -> Any:
        return create_model(base.__name__, __base__=base, **fields)

    requests = narrowed(
        Requests,
        cpu=(Annotated[float, Number(*bounds.cpu)] | None, None),
        memory=(Annotated[int, Whole(*bounds.memory)] | None, None),
    )
    resources = narrowed(Resources, requests=(requests, requests()))
    entry = narrowed(Entry, resources=(resources, resources()))
    init = narrowed(InitEntry, resources=(resources, resources()))
    spec = narrowed(
        Spec,
        containers=(Annotated[many[entry], Field(min_length=1, max_length=64)], ...),
        initContainers=(Annotated[many[init], Few] | None, None),
    )
    template = narrowed(Template, spec=(spec, ...))
    made: type[Arguments] = narrowed(CapsuleCreate, template=(Annotated[template, BeforeValidator(_parsed)], ...))
    return made


def create(call: Call) -> type[Arguments]:
    """The create model with the operator's bounds."""
    return _bounded(limits(call.control.conf))
