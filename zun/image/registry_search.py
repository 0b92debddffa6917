"""What a registry has, asked over its HTTP API (v2): its catalogue, and the tags of one repository."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import aiohttp
import orjson

from zun.domain.errors import Invalid, ServiceUnavailable
from zun.domain.image import ImageReference
from zun.runtime.base import RegistryAuth
from zun.runtime.registry_api import SECONDS, Elsewhere, RegistryApi, address_of

_PAGE = 1000
_MOST_PAGES = 20
_MOST_FOUND = 100
_NEXT = re.compile(r'<([^>]+)>;\s*rel="?next"?')


async def search(reference: ImageReference, auth: RegistryAuth | None, *, exact: bool) -> Sequence[str]:
    """Names of repositories of ``reference.domain``. Raises Invalid where it cannot be searched, ServiceUnavailable."""
    domain = reference.domain or ""
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    try:
        async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
            registry = _Registry(session, domain, auth)
            if exact:
                status, _, _ = await registry.get(f"/v2/{reference.repository}/tags/list?n=1")
                return [reference.repository] if registry.allowed(status) else []
            return await _catalogue(registry, reference.repository)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise ServiceUnavailable(f"The registry {domain}", str(error) or "no answer in time") from error


async def _catalogue(registry: _Registry, text: str) -> Sequence[str]:
    found: list[str] = []
    path: str | None = f"/v2/_catalog?n={_PAGE}"
    for _ in range(_MOST_PAGES):
        if path is None or len(found) >= _MOST_FOUND:
            break
        status, body, headers = await registry.get(path)
        if not registry.allowed(status):
            raise Invalid(f"The registry {registry.domain} offers no search.")
        found += [name for name in (orjson.loads(body).get("repositories") or ()) if text in name]
        following = _NEXT.search(headers.get("Link", ""))
        path = following[1] if following else None
    return sorted(found)[:_MOST_FOUND]


class _Registry:
    """Calls of one registry, and what its answers mean to a search."""

    def __init__(self, session: aiohttp.ClientSession, domain: str, auth: RegistryAuth | None) -> None:
        self.domain = domain
        self._api = RegistryApi(session, address_of(domain), auth)

    def allowed(self, status: int) -> bool:
        """False: it does not have that. Raises Invalid when it refuses us, ServiceUnavailable for its own faults."""
        if status in (401, 403):
            raise Invalid(f"The registry {self.domain} refuses the search.")
        if status >= 500 or status == 429:
            raise ServiceUnavailable(f"The registry {self.domain}", f"it answered {status}")
        return status < 400

    async def get(self, path: str) -> tuple[int, bytes, Mapping[str, str]]:
        try:
            return await self._api.get(path)
        except Elsewhere as error:
            raise ServiceUnavailable(f"The registry {self.domain}", str(error)) from error
