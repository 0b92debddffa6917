"""Which open files are kept back, by the limit of now; and that their end and their return are told once each."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.wait import eventually
from zun import open_files


@pytest.mark.parametrize(("limit", "last_for_clients"), [(64, 55), (1024, 895), (4096, 3839), (65536, 65279)])
def test_the_last_ones_are_not_for_clients(monkeypatch: pytest.MonkeyPatch, limit: int, last_for_clients: int) -> None:
    monkeypatch.setattr(open_files, "limit", lambda: limit)
    assert not open_files.kept_back(last_for_clients)
    assert open_files.kept_back(last_for_clients + 1)


async def test_it_is_told_once_and_that_it_is_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(open_files, "_LOOK_SECONDS", 0.01)
    looks: list[int] = []
    bound = 1

    def limit() -> int:
        looks.append(bound)
        return bound

    monkeypatch.setattr(open_files, "limit", limit)
    watching = asyncio.create_task(open_files.watch())
    await eventually(lambda: len(looks) > 5, 30, "it looks again and again")
    bound = 1 << 20
    await eventually(lambda: "well again" in caplog.text, 30, "it is told that there is room")
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert caplog.text.count("result=exhausted") == 1
    assert caplog.text.count("result=well again") == 1
