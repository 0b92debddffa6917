"""A container whose process the node still holds, its interfaces not being there yet."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import cast

from tests.support.runtimes import DockerBench
from tests.support.wait import eventually

MUCH = 60
"""Seconds of grace: more than a process is held at most, so that one waited for would run in the end."""


async def test_what_has_not_begun_is_ended_without_its_grace(docker: DockerBench) -> None:
    """A signal is lost on a first process that has not begun; it would have all the grace, and run in it."""
    held: list[Callable[[], None]] = []

    def heard(uuid: str, namespace: int, let_go: Callable[[], None]) -> None:
        os.close(namespace)
        held.append(let_go)

    await docker.runtime.follow_namespaces(heard)
    begun = ["sh", "-c", "trap 'exit 0' TERM; echo begun; while :; do sleep 0.1; done"]
    uuid = await docker.running(command=begun)
    await eventually(lambda: len(held) == 1, 60, "its namespace is told")
    await docker.runtime.stop(uuid, MUCH)
    assert (await docker.reaches(uuid, "exited")).exit_code == 137
    assert await said(docker, uuid) == ""
    await docker.runtime.start(uuid)
    await eventually(lambda: len(held) == 2, 60, "its next namespace is told")
    held[1]()

    await eventually(cast("Callable[[], str]", lambda: said(docker, uuid)), 60, "it has begun")
    await docker.runtime.stop(uuid, MUCH)
    assert (await docker.reaches(uuid, "exited")).exit_code == 0, "it ends well on TERM"


async def said(docker: DockerBench, uuid: str) -> str:
    return await docker.runtime.logs(uuid, stdout=True, stderr=True, timestamps=False, tail=None, since=None)
