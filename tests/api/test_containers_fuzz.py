"""Whatever a create body holds, the answer is never a 5xx, and a refusal leaves nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.containers import make_plane
from zun.store.tables import containers

_SCALAR = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12), st.sampled_from(["None", "", "a\x00b", "/x", "net", "1", "0.5", "always", "%s %d {0}"]),
)  # fmt: skip
_JSON = st.recursive(
    _SCALAR,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)
_FIELDS = [
    "name",
    "image",
    "command",
    "entrypoint",
    "cpu",
    "cpu_policy",
    "memory",
    "disk",
    "workdir",
    "auto_remove",
    "image_pull_policy",
    "labels",
    "environment",
    "restart_policy",
    "interactive",
    "tty",
    "image_driver",
    "security_groups",
    "hints",
    "nets",
    "mounts",
    "runtime",
    "hostname",
    "availability_zone",
    "auto_heal",
    "privileged",
    "healthcheck",
    "exposed_ports",
    "registry",
    "host",
    "run",
    "bogus",
]
_LIKELY: dict[str, st.SearchStrategy[Any]] = {
    "mounts": st.lists(
        st.dictionaries(st.sampled_from(["type", "source", "destination", "size"]), _SCALAR, max_size=4), max_size=3
    ),
    "nets": st.lists(
        st.dictionaries(st.sampled_from(["network", "port", "v4-fixed-ip", "v6-fixed-ip"]), _SCALAR, max_size=3),
        max_size=2,
    ),
    "healthcheck": st.dictionaries(st.sampled_from(["cmd", "interval", "retries", "timeout"]), _SCALAR),
    "restart_policy": st.fixed_dictionaries(
        {"Name": st.sampled_from(["no", "always", "on-failure"])}, optional={"MaximumRetryCount": _SCALAR}
    ),
    "exposed_ports": st.dictionaries(st.sampled_from(["80", "80/tcp", "x", "99999/udp", "1/x", "²"]), _JSON),
    "command": st.one_of(st.lists(_JSON, max_size=3), st.text(max_size=20)),
    "labels": st.dictionaries(st.text(max_size=5), _JSON, max_size=3),
    "environment": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
}


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    """A plausible image and a few fields, each near its type or anything."""
    body: dict[str, Any] = {"image": draw(st.sampled_from(["cirros", "a/b:c", "x@y", "::", "cirros"]))}
    for name in draw(st.lists(st.sampled_from(_FIELDS), max_size=5, unique=True)):
        body[name] = draw(st.one_of(_LIKELY.get(name, _JSON), _JSON))
    return body


@pytest.mark.parametrize("version", ["1.12", "1.36", "1.40"])
def test_create_never_fails_inside(tmp_path: Path, version: str) -> None:
    async def story() -> None:
        async with make_plane(tmp_path) as plane:
            await plane.add_host()
            await plane.client("admin").put("/v1/quotas/proj1", json=dict.fromkeys(("containers", "disk", "cpu"), -1))
            client = plane.client("admin", version=version, project_id="proj1")
            loop = asyncio.get_running_loop()

            async def send(body: dict[str, Any]) -> None:
                before = await plane.count(containers)
                answer = await client.post("/v1/containers", json=body)
                assert answer.status_code < 500, (body, answer.text)
                made = 1 if answer.status_code == 202 else 0
                assert await plane.count(containers) == before + made, body

            @settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), database=None)
            @given(bodies())
            def run(body: dict[str, Any]) -> None:
                asyncio.run_coroutine_threadsafe(send(body), loop).result(60)

            await asyncio.to_thread(run)

    asyncio.run(story())
