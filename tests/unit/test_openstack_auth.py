"""Our own account: one token, renewed before it ends, asked for by one however many want it; and what goes wrong."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from keystoneauth1 import exceptions
from keystoneauth1.access import create as access_of
from keystoneauth1.access.access import AccessInfo

from tests.support.wait import eventually
from zun import conf as configuration
from zun.conf import ConfigError
from zun.domain.errors import ServiceUnavailable
from zun.openstack import auth as module
from zun.openstack.auth import ServiceAuth

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Times:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> datetime:
        return self.now

    def later(self, **span: float) -> None:
        self.now += timedelta(**span)


class Plugin:
    """Gives tokens t1, t2, … of ``life`` seconds, whose times are ``skew`` beside ours; or what ``faults`` has."""

    def __init__(self, times: Times) -> None:
        self.times = times
        self.life, self.skew = 3600.0, 0.0
        self.faults: list[Exception] = []
        self.asked = 0
        self.gate = threading.Event()
        self.gate.set()

    def get_auth_ref(self, session: object) -> AccessInfo:
        self.asked += 1
        number = self.asked
        assert self.gate.wait(60)
        if self.faults:
            raise self.faults.pop(0)
        issued = self.times.now + timedelta(seconds=self.skew)
        body = {"issued_at": issued.isoformat(), "expires_at": (issued + timedelta(seconds=self.life)).isoformat()}
        body |= {"user": {"id": "u"}, "catalog": []}  # type: ignore[dict-item]
        return access_of(body={"token": body}, auth_token=f"t{number}")  # type: ignore[no-any-return]


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def plugin(times: Times) -> Plugin:
    return Plugin(times)


@pytest.fixture
async def auth(times: Times, plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> ServiceAuth:
    monkeypatch.setattr(module, "_AGAIN", (0.0, 0.0))
    conf = configuration.new()
    conf([], project="zun", default_config_files=[])
    conf.set_override("auth_type", "password", "keystone_authtoken")
    conf.set_override("auth_url", "http://127.0.0.1:9/v3", "keystone_authtoken")
    made = ServiceAuth(conf, now=times)
    monkeypatch.setattr(made, "_plugin", plugin)
    return made


async def test_one_log_in_for_all_and_none_while_the_token_is_good(auth: ServiceAuth, times: Times) -> None:
    assert set(await asyncio.gather(*(auth.token() for _ in range(50)))) == {"t1"}
    times.later(minutes=50)
    assert await auth.token() == "t1"
    assert auth.logins == 1


async def test_renewed_before_it_ends_and_nobody_waits(auth: ServiceAuth, times: Times, plugin: Plugin) -> None:
    assert await auth.token() == "t1"
    times.later(minutes=56)
    plugin.gate.clear()
    assert [await auth.token() for _ in range(10)] == ["t1"] * 10  # Keystone is being asked; the old one is good
    plugin.gate.set()
    await eventually(lambda: _is(auth, "t2"), 30, "t2")
    assert auth.logins == plugin.asked == 2


async def _is(auth: ServiceAuth, token: str) -> bool:
    return await auth.token() == token


async def test_a_short_token_is_renewed_in_its_last_fifth(auth: ServiceAuth, times: Times, plugin: Plugin) -> None:
    plugin.life = 200
    assert await auth.token() == "t1"
    times.later(seconds=150)
    assert await auth.token() == "t1"
    assert auth.logins == 1
    times.later(seconds=15)
    assert await auth.token() == "t1"
    await eventually(lambda: _is(auth, "t2"), 30, "t2")
    times.later(seconds=190)
    assert await auth.token() == "t3"  # too late for the background: waited for


@pytest.mark.parametrize("skew", [-7200.0, 7200.0])
async def test_a_clock_beside_keystones_does_not_make_us_log_in_again(
    auth: ServiceAuth, plugin: Plugin, times: Times, skew: float
) -> None:
    plugin.skew = skew
    for _ in range(5):
        assert await auth.token() == "t1"
        times.later(minutes=5)
    assert auth.logins == 1


async def test_a_renewal_that_fails_hurts_nobody_and_is_not_tried_at_each_call(
    auth: ServiceAuth, plugin: Plugin, times: Times
) -> None:
    assert await auth.token() == "t1"
    times.later(minutes=56)
    plugin.faults = [exceptions.ConnectFailure("refused") for _ in range(3)]
    assert await auth.token() == "t1"
    await eventually(lambda: auth._flight is None, 30, "the log-in failed")
    assert [await auth.token() for _ in range(20)] == ["t1"] * 20
    assert auth.logins == 2
    times.later(seconds=6)
    assert await auth.token() == "t1"
    await eventually(lambda: _is(auth, "t4" if plugin.asked == 4 else "t5"), 30, "renewed")


async def test_a_fault_that_passes_is_tried_again(auth: ServiceAuth, plugin: Plugin) -> None:
    plugin.faults = [exceptions.ConnectFailure("refused"), exceptions.InternalServerError("oops")]
    assert await auth.token() == "t3"


@pytest.mark.parametrize(
    ("fault", "asked", "text"),
    [
        (exceptions.ConnectFailure("no route"), 3, "Keystone is not available: no route."),
        (exceptions.ConnectTimeout("timed out"), 1, "Keystone is not available: timed out."),
        (exceptions.InternalServerError("oops"), 3, "Keystone is not available: oops"),
        (exceptions.Unauthorized("no"), 1, "it refuses our own account"),
        (OSError("no CA bundle"), 1, "no CA bundle"),
    ],
)
async def test_what_went_wrong_is_told_by_name(
    auth: ServiceAuth, plugin: Plugin, fault: Exception, asked: int, text: str
) -> None:
    plugin.faults = [fault] * 3
    with pytest.raises(ServiceUnavailable) as caught:
        await auth.token()
    assert text in str(caught.value)
    assert plugin.asked == asked
    plugin.faults.clear()
    assert await auth.token()


async def test_a_token_that_a_service_refused_is_replaced_once(auth: ServiceAuth, times: Times) -> None:
    token = await auth.token()
    times.later(minutes=1)
    for _ in range(3):
        auth.refused(token)
    assert set(await asyncio.gather(*(auth.token() for _ in range(9)))) == {"t2"}
    auth.refused(token)  # news of the old one
    assert await auth.token() == "t2"
    auth.refused("t2")  # brand new: the service is wrong, and must not make us log in at every call
    assert await auth.token() == "t2"
    assert auth.logins == 2


async def test_a_caller_who_leaves_does_not_end_the_log_in(auth: ServiceAuth, plugin: Plugin) -> None:
    plugin.gate.clear()
    leaves, stays = asyncio.create_task(auth.token()), asyncio.create_task(auth.token())
    await eventually(lambda: plugin.asked, 30, "asked")
    leaves.cancel()
    plugin.gate.set()
    assert await stays == "t1"


async def test_closing_ends_a_log_in_at_work(auth: ServiceAuth, plugin: Plugin) -> None:
    plugin.gate.clear()
    waiting = asyncio.create_task(auth.token())
    await eventually(lambda: plugin.asked, 30, "asked")
    await auth.close()
    plugin.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "auth_type is not set"),
        ({"auth_type": "nonsense"}, "names no usable account"),
        ({"auth_type": "none"}, "a service account is needed"),
    ],
)
def test_no_account(options: dict[str, Any], text: str) -> None:
    conf = configuration.new()
    conf([], project="zun", default_config_files=[])
    conf.set_override("auth_url", "http://127.0.0.1:9/v3", "keystone_authtoken")
    for name, value in options.items():
        conf.set_override(name, value, "keystone_authtoken")
    with pytest.raises(ConfigError, match=text):
        ServiceAuth(conf)
