"""Arguments of registries."""

from __future__ import annotations

from typing import Annotated

from zun.api.v1.models.common import Arguments, Name, Short, Text

Password = Annotated[str, Text(1, 16384)]


class NewRegistry(Arguments):
    """What ``registry`` holds on create; null is not allowed anywhere."""

    name: Name = ""
    domain: Short
    username: Short = ""
    password: Password = ""


class ChangedRegistry(Arguments):
    """What ``registry`` holds on update."""

    name: Name = ""
    domain: Short = ""
    username: Short = ""
    password: Password = ""


class RegistryCreate(Arguments):
    """``POST /registries``."""

    registry: NewRegistry


class RegistryUpdate(Arguments):
    """``PATCH /registries/{registry_ident}``."""

    registry: ChangedRegistry
