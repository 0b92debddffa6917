"""``OpenStack-API-Version``: read from requests, written to answers."""

from __future__ import annotations

import re
from typing import Any

from zun.api.call import MAX_VERSION, MIN_VERSION, Version
from zun.domain.errors import NotAcceptable

SERVICE = "container"
_NUMBER = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")
_KNOWN = {
    f"{SERVICE} {MIN_VERSION.major}.{minor}": Version(MIN_VERSION.major, minor)
    for minor in range(MIN_VERSION.minor, MAX_VERSION.minor + 1)
}
_FIXED: list[tuple[bytes, bytes]] = [
    (b"openstack-api-minimum-version", f"{SERVICE} {MIN_VERSION}".encode()),
    (b"openstack-api-maximum-version", f"{SERVICE} {MAX_VERSION}".encode()),
    (b"vary", b"OpenStack-API-Version"),
]
_HEADERS = {
    version: [(b"openstack-api-version", f"{SERVICE} {version}".encode()), *_FIXED] for version in _KNOWN.values()
}


class VersionUnsupported(NotAcceptable):
    """The version is understood and outside of what is served; answered with the range."""

    def __init__(self, version: Version) -> None:
        super().__init__("Requested microversion is unsupported")
        self.version = version


def parse(header: str | None) -> Version:
    """The version asked for; 1.1 without the header.

    Raises NotAcceptable (empty title) when it cannot be understood, VersionUnsupported when out of range.
    """
    if header is None:
        return MIN_VERSION
    known = _KNOWN.get(header)
    if known:
        return known
    words = header.split()
    if len(words) != 2:
        raise NotAcceptable("")
    service, number = words
    if number.lower() == "latest":
        return MAX_VERSION
    match = _NUMBER.fullmatch(number)
    if service.lower() != SERVICE or not match:
        raise NotAcceptable("")
    version = Version(int(match[1]), int(match[2]))
    if version.major != MIN_VERSION.major or not MIN_VERSION <= version <= MAX_VERSION:
        raise VersionUnsupported(version)
    return version


def headers(version: Version) -> list[tuple[bytes, bytes]]:
    """What every answer of a versioned route carries."""
    return _HEADERS.get(version) or [(b"openstack-api-version", f"{SERVICE} {version}".encode()), *_FIXED]


def unsupported_body(base_url: str, version: Version) -> dict[str, Any]:
    """The 406 of a version out of range."""
    detail = f"Version {version} is not supported. The minimum is {MIN_VERSION} and the maximum {MAX_VERSION}."
    return {
        "errors": [
            {
                "request_id": "",
                "code": "zun.microversion-unsupported",
                "status": 406,
                "title": "Requested microversion is unsupported",
                "detail": detail,
                "max_version": str(MAX_VERSION),
                "min_version": str(MIN_VERSION),
                "links": [{"rel": "help", "href": f"{base_url}/v1/"}],
            }
        ]
    }
