"""An application and clients for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.support.api import Api, make_api
from tests.support.containers import Plane, make_plane


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with make_api(tmp_path) as made:
        yield made


@pytest.fixture
def member(api: Api) -> httpx.AsyncClient:
    return api.client(("member",))


@pytest.fixture
def admin(api: Api) -> httpx.AsyncClient:
    return api.admin


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    """With one host, which takes capsules too; modules that want another have their own."""
    async with make_plane(tmp_path) as made:
        await made.add_host(capsules=True)
        yield made
