"""Image references: ``[registry/]repository[:tag|@digest]``. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from zun.domain.errors import InvalidValue

_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_DOMAIN = re.compile(r"(?:\[[0-9a-fA-F:]+\]|[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)*)(?::[0-9]+)?")

LOADED = "glance.invalid"
"""The registry part of names that images of Glance have in an engine. No such host can be (RFC 2606), so nothing is
ever pulled from it; and nobody may name it."""
COMMITTED = "commits.invalid"
"""The same for images of containers on their way to Glance."""


RESERVED = (LOADED, COMMITTED)


@dataclass(frozen=True, slots=True)
class ImageReference:
    """A parsed reference; ``domain`` None means the engine's default registry."""

    repository: str
    domain: str | None = None
    tag: str | None = None
    digest: str | None = None

    @property
    def name(self) -> str:
        """``domain/repository`` without tag."""
        return f"{self.domain}/{self.repository}" if self.domain else self.repository

    def __str__(self) -> str:
        if self.digest:
            return f"{self.name}@{self.digest}"
        return f"{self.name}:{self.tag or 'latest'}"

    def in_registry(self, domain: str | None) -> ImageReference:
        """The same image in ``domain`` when the reference names no registry itself."""
        if domain and not self.domain:
            return ImageReference(self.repository, domain.rstrip("/"), self.tag, self.digest)
        return self


def asked_reference(text: str) -> ImageReference:
    """What a user asks for; raises ``InvalidValue`` (400), also for names that are ours alone."""
    parsed = parse_reference(text)
    if (parsed.domain or "").lower() in RESERVED:
        raise InvalidValue(f"Invalid image reference '{text}': there is no such registry.")
    return parsed


def parse_reference(text: str) -> ImageReference:
    """Parse ``text``; raises ``InvalidValue`` (400) with what is wrong."""

    def wrong(what: str) -> InvalidValue:
        return InvalidValue(f"Invalid image reference '{text}': {what}.")

    rest, _, digest = text.partition("@")
    if "@" in text and not _DIGEST.fullmatch(digest):
        raise wrong("the digest has to look like sha256:<64 hexadecimal digits>")
    head, slash, tail = rest.partition("/")
    domain: str | None = None
    if slash and ("." in head or ":" in head or head == "localhost" or head != head.lower()):
        if not _DOMAIN.fullmatch(head):
            raise wrong(f"'{head}' is not a registry's address")
        domain, rest = head, tail
    path, colon, tag = rest.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise wrong(f"'{tag}' is not a tag")
    if not path:
        raise wrong("the repository is missing")
    for component in path.split("/"):
        if not _COMPONENT.fullmatch(component):
            raise wrong(f"'{path}' has to be lower-case words joined by '.', '_', '-' or '/'")
    return ImageReference(path, domain, tag or None, digest or None)
