"""One command of the container runtime as the plug-in passed it on, and the errors that answer it. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

VERSIONS = ("0.4.0", "1.0.0")
"""Of CNI's specification."""
FIRST = "eth0"

# Codes of the specification; from 100 on a plug-in's own.
INCOMPATIBLE, UNKNOWN, BAD_VARIABLES, FAILED_IO, UNDECODABLE, BAD_CONFIG, LATER = 1, 3, 4, 5, 6, 7, 11
NOT_ACTIVE, DIFFERS, NOT_PLUGGED, CRASHED = 100, 101, 102, 999

_SANDBOX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,255}")


class CniError(Exception):
    """``status`` of HTTP, ``code`` of CNI; ``message`` reaches the sandbox's error in the engine."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    def body(self, version: str) -> dict[str, Any]:
        return {"cniVersion": version, "code": self.code, "msg": self.message}


@dataclass(frozen=True, slots=True)
class Call:
    """``capsule`` is the pod's uid (empty: none of ours); ``namespace`` a path, empty when it is gone."""

    version: str
    network: str
    capsule: str
    sandbox: str
    namespace: str


def version_of(body: bytes) -> str:
    """For the answer to what could not be read: the version asked for where that can be told."""
    try:
        asked = json.loads(body).get("cniVersion")
    except (ValueError, AttributeError, RecursionError):
        asked = None
    return asked if asked in VERSIONS else VERSIONS[-1]


def parse(headers: Mapping[str, str], body: bytes, *, needs_namespace: bool) -> Call:
    """Raises CniError naming what is wrong."""
    config = _config(body)
    sandbox = headers.get("CNI-CONTAINERID", "")
    if not _SANDBOX.fullmatch(sandbox):
        raise CniError(400, BAD_VARIABLES, f"CNI_CONTAINERID is not an id: {sandbox[:80]!r}.")
    name = headers.get("CNI-IFNAME", "")
    if name != FIRST:
        raise CniError(
            400, BAD_VARIABLES, f"CNI_IFNAME has to be {FIRST}, not {name[:80]!r}: one call plugs all interfaces."
        )
    namespace = headers.get("CNI-NETNS", "")
    if (needs_namespace or namespace) and not namespace.startswith("/"):
        raise CniError(400, BAD_VARIABLES, f"CNI_NETNS has to be an absolute path, not {namespace[:80]!r}.")
    capsule = _capsule(headers.get("CNI-ARGS", ""))
    if needs_namespace and not capsule:
        raise CniError(
            400,
            BAD_VARIABLES,
            "CNI_ARGS names no capsule: K8S_POD_UID has to be its uuid. Zun wires its own pods only.",
        )
    return Call(config["cniVersion"], config["name"], capsule, sandbox, namespace)


def _config(body: bytes) -> Any:
    try:
        config = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise CniError(400, UNDECODABLE, f"The network configuration is not JSON: {error}.") from error
    if not isinstance(config, dict):
        raise CniError(400, BAD_CONFIG, "The network configuration is not a JSON object.")
    version = config.get("cniVersion")
    if version not in VERSIONS:
        raise CniError(
            400, INCOMPATIBLE, f"cniVersion {str(version)[:80]!r} is not supported; use {' or '.join(VERSIONS)}."
        )
    if not isinstance(config.get("name"), str) or not config["name"]:
        raise CniError(400, BAD_CONFIG, "The network configuration has no name.")
    return config


def _capsule(arguments: str) -> str:
    """Of ``A=1;K8S_POD_UID=…;B=2``; empty when there is none, or it is no uuid."""
    pairs = dict(part.partition("=")[::2] for part in arguments.split(";"))
    try:
        return str(UUID(pairs.get("K8S_POD_UID", "")))
    except ValueError:
        return ""
