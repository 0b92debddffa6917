"""The HTTP API (v2) of an OCI registry: asked where no engine does it for us."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin

import aiohttp
import orjson

from zun.domain.errors import ImageFailed, ImagePullFailed, InvalidValue
from zun.domain.image import ImageReference, parse_reference
from zun.runtime.base import RegistryAuth

SECONDS = 15.0
"""Longest wait for all that one question needs."""

_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_HUB = "registry-1.docker.io"
_HUB_NAMES = (None, "docker.io", "index.docker.io")
_MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)


class Elsewhere(Exception):
    """The registry leads to another address, where our password is not to go."""


def host_of(domain: str | None) -> str:
    """Where the registry of a reference answers; None is Docker Hub."""
    return _HUB if domain in _HUB_NAMES else str(domain)


def address_of(domain: str) -> str:
    """As engines do: no TLS on the machine itself."""
    return f"{'http' if _is_local(domain) else 'https'}://{domain}"


class RegistryApi:
    """Calls of one registry at ``base``; a challenge is answered once and remembered."""

    def __init__(self, session: aiohttp.ClientSession, base: str, auth: RegistryAuth | None) -> None:
        self._session = session
        self._auth = auth
        self._base = base
        self._headers: dict[str, str] = {}

    async def get(self, path: str) -> tuple[int, bytes, Mapping[str, str]]:
        """Status, body, headers. Raises Elsewhere, aiohttp's errors, TimeoutError, ValueError."""
        return await self.ask("GET", path, {})

    async def ask(self, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, bytes, Mapping[str, str]]:
        """As ``get``, with another method and headers of the caller's."""
        status, body, answered = await self._ask(method, path, headers)
        if status == 401 and not self._headers:
            self._headers = await self._answer(answered.get("WWW-Authenticate", ""))
            if self._headers:
                return await self._ask(method, path, headers)
        return status, body, answered

    async def _ask(self, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, bytes, Mapping[str, str]]:
        url = urljoin(self._base, path)
        if not url.startswith(f"{self._base}/"):
            raise Elsewhere("it leads elsewhere")
        sent = {**headers, **self._headers}
        async with self._session.request(method, url, headers=sent, allow_redirects=False) as answer:
            return answer.status, await answer.read(), answer.headers

    async def _answer(self, challenge: str) -> dict[str, str]:
        kind, _, rest = challenge.partition(" ")
        basic = self._basic()
        if kind.lower() == "basic":
            return {"Authorization": basic} if basic else {}
        fields = dict(_CHALLENGE.findall(rest))
        realm = fields.pop("realm", "")
        if kind.lower() != "bearer" or not realm.startswith(("https://", f"{self._base}/")):
            return {}
        url = f"{realm}?{urlencode({name: fields[name] for name in ('service', 'scope') if name in fields})}"
        sent = {"Authorization": basic} if basic else {}
        async with self._session.get(url, headers=sent, allow_redirects=False) as answer:
            if answer.status >= 400:
                return {}
            token: Any = orjson.loads(await answer.read())
        value = token.get("token") or token.get("access_token")
        return {"Authorization": f"Bearer {value}"} if value else {}

    def _basic(self) -> str:
        if self._auth is None:
            return ""
        return "Basic " + base64.b64encode(f"{self._auth.username}:{self._auth.password}".encode()).decode()


async def has_image(reference: str, auth: RegistryAuth | None, *, hosts: str = "") -> bool:
    """Does the registry answer with a manifest, for these credentials? ``hosts``: containerd's folder of ``hosts.toml``
    files, which lead to other addresses. Raises ImageFailed for what is no reference, ImagePullFailed when no address
    can tell."""
    try:
        parsed = parse_reference(reference)
    except InvalidValue as error:
        raise ImageFailed(f"Image {reference} is not a valid reference: {error}") from error
    host = host_of(parsed.domain)
    trouble = ""
    for base in await asyncio.to_thread(_addresses, host, hosts):
        # The password is the registry's own, not a mirror's.
        given = auth if base.partition("://")[2] == host else None
        try:
            status = await _manifest(base, parsed, given)
        except (aiohttp.ClientError, Elsewhere, TimeoutError, OSError, ValueError) as error:
            trouble = str(error) or "no answer in time"
            continue
        if status < 400:
            return True
        if status >= 500 or status == 429:
            trouble = f"it answered {status}"
    if trouble:
        raise ImagePullFailed(f"Error on asking the registry for image: {reference}: {trouble}")
    return False


async def _manifest(base: str, parsed: ImageReference, auth: RegistryAuth | None) -> int:
    repository = parsed.repository
    if host_of(parsed.domain) == _HUB and "/" not in repository:
        repository = f"library/{repository}"
    path = f"/v2/{repository}/manifests/{parsed.digest or parsed.tag or 'latest'}"
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
        status, _, _ = await RegistryApi(session, base, auth).ask("HEAD", path, {"Accept": _MANIFESTS})
    return status


def _addresses(host: str, folder: str) -> Sequence[str]:
    """Where containerd asks for images of ``host``, in its order: mirrors, then the registry itself."""
    plain = [address_of(host)]
    for part in folder.split(":") if folder else ():
        for name in (host, host.replace(":", "_", 1) + "_" if ":" in host else host, "_default"):
            try:
                known = tomllib.loads((Path(part) / name / "hosts.toml").read_text())
            except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
                continue
            mirrors = [str(url).rstrip("/") for url, one in (known.get("host") or {}).items() if _resolves(one)]
            server = str(known.get("server") or "").rstrip("/")
            return [*mirrors, *([server] if server and server not in mirrors else [] if server else plain)]
    return plain


def _resolves(settings: Any) -> bool:
    return "resolve" in (settings.get("capabilities") or ("pull", "resolve")) if isinstance(settings, dict) else False


def _is_local(domain: str) -> bool:
    host = domain.rpartition(":")[0] or domain
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
