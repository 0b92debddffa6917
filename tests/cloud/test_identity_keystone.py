"""The identity port on a real Keystone: who a token is, for how long it is believed, and Keystone at fault."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import configure
from tests.support.keystone import ACCOUNT, PUBLIC_URI, Keystone, User
from tests.support.tcp_proxy import TcpProxy
from zun.domain.caller import Caller
from zun.domain.errors import ServiceUnavailable
from zun.identity.keystone import KeystoneIdentity
from zun.openstack.cloud import OpenStack

CHECK = "^GET /v3/auth/tokens"
LOGIN = "^POST /v3/auth/tokens"


class MovedClock:
    """The real time, and what the test adds."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=self.ahead)

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    async def sleep(self, seconds: float) -> None:
        self.ahead += seconds


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@asynccontextmanager
async def opened(
    folder: Path, proxy: TcpProxy, clock: MovedClock, options: Mapping[str, Any] | None = None
) -> AsyncIterator[KeystoneIdentity]:
    """Through the proxy, log-ins and checks alike."""
    url = f"{proxy.url}/v3"
    values = {**ACCOUNT, "auth_url": url, "endpoint_override": url, **(options or {})}
    conf = configure(folder, {f"keystone_authtoken.{name}": value for name, value in values.items()})
    cloud = OpenStack(conf)
    try:
        yield KeystoneIdentity(cloud.keystone, conf, clock)
    finally:
        await cloud.close()


@pytest.fixture
async def identity(tmp_path: Path, keystone_proxy: TcpProxy, clock: MovedClock) -> AsyncIterator[KeystoneIdentity]:
    async with opened(tmp_path, keystone_proxy, clock) as made:
        yield made


@pytest.fixture(scope="module")
def member(keystone: Keystone) -> User:
    return keystone.user(keystone.project(), "member")


@pytest.fixture(scope="module")
def token(keystone: Keystone, member: User) -> str:
    return keystone.project_token(member)


@pytest.fixture(scope="module")
def service(keystone: Keystone) -> str:
    """Token of a service's account."""
    return keystone.token("cinder", {"project": {"name": "service", "domain": {"name": "Default"}}})


async def recovered(identity: KeystoneIdentity, token: str) -> Caller | None:
    """What is told of the token once Keystone answers; deadlines are short here, and the machine is busy."""
    for _ in range(60):
        try:
            return await identity.authenticate(token)
        except ServiceUnavailable:
            await asyncio.sleep(0.5)
    raise AssertionError("Keystone does not answer")


async def test_a_project_token(identity: KeystoneIdentity, member: User, token: str) -> None:
    caller = await identity.authenticate(token)
    assert caller is not None
    assert (caller.user_id, caller.user_name, caller.project_id) == (member.id, member.name, member.project_id)
    assert caller.roles == {"member", "reader"}
    assert (caller.user_domain_id, caller.project_domain_name) == ("default", "Default")
    assert (caller.token, caller.system_scope, caller.domain_id, caller.is_admin_project) == (token, None, None, True)
    assert token not in repr(caller)


@pytest.mark.parametrize("text", ["", "nonsense", "ä" * 50, "x" * 10_000, "a b", "\ud800", "x\r\nX-Roles: admin"])
async def test_what_is_no_token(identity: KeystoneIdentity, token: str, text: str) -> None:
    assert await identity.authenticate(text) is None
    assert await identity.authenticate(token, "nonsense") is None


async def test_application_credentials_and_trusts(identity: KeystoneIdentity, keystone: Keystone, member: User) -> None:
    by_credential = await identity.authenticate(keystone.application_credential(member, roles=[{"name": "reader"}]))
    assert by_credential is not None
    assert (by_credential.user_id, by_credential.project_id) == (member.id, member.project_id)
    assert by_credential.roles == {"reader"}
    other = keystone.user(keystone.project(), "member")
    trusted = await identity.authenticate(keystone.trust_token(member, other, "member"))
    assert trusted is not None
    assert (trusted.user_id, trusted.project_id) == (member.id, member.project_id)


async def test_an_application_credential_for_single_calls_is_refused(
    identity: KeystoneIdentity, keystone: Keystone, member: User
) -> None:
    """Its access rules would have to be applied; a token with rules is none for who does not know them."""
    rules = [{"service": "image", "method": "GET", "path": "/v2/images"}]
    assert await identity.authenticate(keystone.application_credential(member, access_rules=rules)) is None


async def test_tokens_without_a_project(identity: KeystoneIdentity, keystone: Keystone) -> None:
    user = keystone.user(keystone.project())
    unscoped = await identity.authenticate(keystone.token(user.name))
    assert unscoped is not None
    assert (unscoped.user_id, unscoped.project_id, unscoped.roles) == (user.id, None, frozenset())
    keystone.role("/system", user, "reader")
    system = await identity.authenticate(keystone.token(user.name, {"system": {"all": True}}))
    assert system is not None
    assert (system.project_id, system.system_scope, system.roles) == (None, "all", frozenset({"reader"}))
    keystone.role("/domains/default", user, "member")
    of_domain = await identity.authenticate(keystone.token(user.name, {"domain": {"id": "default"}}))
    assert of_domain is not None
    assert (of_domain.project_id, of_domain.domain_id, of_domain.system_scope) == (None, "default", None)


async def test_one_check_however_many_ask_and_one_log_in(
    identity: KeystoneIdentity, keystone: Keystone, member: User, keystone_proxy: TcpProxy
) -> None:
    tokens = [keystone.project_token(member) for _ in range(3)]
    callers = await asyncio.gather(*(identity.authenticate(one) for one in tokens * 20))
    assert {caller and caller.user_id for caller in callers} == {member.id}
    assert (keystone_proxy.count(CHECK), keystone_proxy.count(LOGIN)) == (3, 1)
    for one in tokens:
        assert await identity.authenticate(one)
    assert (keystone_proxy.count(CHECK), keystone_proxy.count(LOGIN)) == (3, 1)
    assert all("nocatalog" in call for call in keystone_proxy.calls if "/auth/tokens" in call and "GET" in call)


async def test_a_caller_who_leaves_does_not_end_the_check_for_others(identity: KeystoneIdentity, token: str) -> None:
    leaves, stays = (asyncio.create_task(identity.authenticate(token)) for _ in range(2))
    await asyncio.sleep(0)
    leaves.cancel()
    assert await stays is not None


async def test_a_revoked_token_is_out_when_the_belief_ends(
    identity: KeystoneIdentity, keystone: Keystone, member: User, clock: MovedClock
) -> None:
    mine = keystone.project_token(member)
    assert await identity.authenticate(mine)
    keystone.revoke(mine)
    assert await identity.authenticate(mine)  # believed
    clock.ahead += 300
    assert await identity.authenticate(mine) is None
    assert await identity.authenticate(mine) is None


async def test_a_longer_belief_is_not_believed(
    tmp_path: Path, keystone_proxy: TcpProxy, clock: MovedClock, token: str
) -> None:
    async with opened(tmp_path, keystone_proxy, clock, {"token_cache_time": 3600}) as identity:
        assert await identity.authenticate(token)
        clock.ahead += 299
        assert await identity.authenticate(token)
        assert keystone_proxy.count(CHECK) == 1
        clock.ahead += 1
        assert await identity.authenticate(token)
        assert keystone_proxy.count(CHECK) == 2


@pytest.mark.parametrize("seconds", [0, -1])
async def test_no_belief(tmp_path: Path, keystone_proxy: TcpProxy, clock: MovedClock, token: str, seconds: int) -> None:
    async with opened(tmp_path, keystone_proxy, clock, {"token_cache_time": seconds}) as identity:
        for count in (1, 2):
            assert await identity.authenticate(token)
            assert keystone_proxy.count(CHECK) == count


async def test_unknown_tokens_are_not_remembered_and_push_nobody_out(
    identity: KeystoneIdentity, token: str, keystone_proxy: TcpProxy
) -> None:
    assert await identity.authenticate(token)
    for guess in range(5):
        assert await identity.authenticate(f"guess{guess}") is None
    assert len(identity._cache) == 1
    assert not any(token in str(key) for key in identity._cache)
    assert await identity.authenticate(token)
    assert keystone_proxy.count(CHECK) == 6


async def test_the_end_of_a_token_counts_at_once_and_not_for_a_service_in_between(
    identity: KeystoneIdentity, token: str, service: str, clock: MovedClock, keystone_proxy: TcpProxy
) -> None:
    assert await identity.authenticate(token)
    clock.ahead = 86_400 * 2.0
    assert await identity.authenticate(token) is None
    assert keystone_proxy.count("allow_expired") == 0
    # The service's own token is as old by this clock, and has to be good.
    assert await identity.authenticate(token, service) is None


async def test_a_service_may_use_a_users_token_that_has_ended(
    identity: KeystoneIdentity, keystone: Keystone, token: str, service: str, keystone_proxy: TcpProxy
) -> None:
    caller = await identity.authenticate(token, service)
    assert caller is not None
    assert "service" in caller.service_roles
    assert caller.service_user_id
    assert keystone_proxy.count("allow_expired=1") == 1


async def test_a_service_token_needs_one_of_the_roles(
    tmp_path: Path, keystone_proxy: TcpProxy, clock: MovedClock, keystone: Keystone, member: User, token: str
) -> None:
    other = keystone.project_token(member)
    async with opened(tmp_path, keystone_proxy, clock) as identity:
        assert await identity.authenticate(token, other) is None
    async with opened(tmp_path, keystone_proxy, clock, {"service_token_roles": "Member"}) as identity:
        assert await identity.authenticate(token, other)
        assert keystone_proxy.count("allow_expired") == 1
    async with opened(tmp_path, keystone_proxy, clock, {"service_token_roles_required": "false"}) as identity:
        assert await identity.authenticate(token, other)
        assert keystone_proxy.count("allow_expired") == 1  # accepted, not trusted with what has ended


@pytest.mark.parametrize("mode", ["refuse", "hang", "500"])
async def test_keystone_at_fault_is_told_by_name_soon_and_never_as_a_refusal(
    tmp_path: Path, keystone_proxy: TcpProxy, clock: MovedClock, token: str, mode: str
) -> None:
    async with opened(tmp_path, keystone_proxy, clock, {"timeout": 2}) as identity:
        known = token
        assert await recovered(identity, known)
        keystone_proxy.mode(mode)
        assert await identity.authenticate(known)  # believed: what is cached goes on
        began = time.monotonic()
        with pytest.raises(ServiceUnavailable, match="Keystone") as caught:
            await identity.authenticate("another")
        assert time.monotonic() - began < 20  # a deadline, not a figure
        assert caught.value.status == 503
        keystone_proxy.mode("pass")
        assert await recovered(identity, "another") is None


@pytest.mark.parametrize("mode", ["refuse", "hang", "500"])
async def test_no_log_in_of_our_own(
    tmp_path: Path, keystone_proxy: TcpProxy, clock: MovedClock, token: str, mode: str
) -> None:
    async with opened(tmp_path, keystone_proxy, clock, {"timeout": 3}) as identity:
        keystone_proxy.mode(mode, LOGIN if mode != "refuse" else None)
        with pytest.raises(ServiceUnavailable, match="Keystone"):
            await identity.authenticate(token)
        keystone_proxy.mode("pass")
        assert await recovered(identity, token)


@pytest.mark.parametrize("wrong", [{"password": "wrong"}, {"username": "demo", "project_name": "demo"}])
async def test_an_account_that_may_not_check_tokens(
    tmp_path: Path, keystone_proxy: TcpProxy, clock: MovedClock, token: str, wrong: dict[str, str]
) -> None:
    async with opened(tmp_path, keystone_proxy, clock, wrong) as identity:
        with pytest.raises(ServiceUnavailable, match=r"Keystone is not available: it .* our (own )?account"):
            await identity.authenticate(token)


async def test_our_own_token_revoked_means_one_new_log_in(
    tmp_path: Path, keystone_proxy: TcpProxy, clock: MovedClock, keystone: Keystone, member: User
) -> None:
    tokens = [keystone.project_token(member) for _ in range(8)]
    async with opened(tmp_path, keystone_proxy, clock, {"token_cache_time": 0}) as identity:
        assert await identity.authenticate(tokens[0])
        auth = identity._keystone._auth
        auth._fetched -= timedelta(minutes=1)  # not new any more
        keystone.revoke(await auth.token())
        assert all(await asyncio.gather(*(identity.authenticate(one) for one in tokens)))
        assert auth.logins == keystone_proxy.count(LOGIN) == 2


async def test_401_names_the_public_address(identity: KeystoneIdentity) -> None:
    assert identity.www_authenticate == f'Keystone uri="{PUBLIC_URI}"'


async def test_tokens_are_not_logged(
    tmp_path: Path,
    keystone_proxy: TcpProxy,
    clock: MovedClock,
    token: str,
    service: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with opened(tmp_path, keystone_proxy, clock, {"timeout": 5}) as identity:
        await identity.authenticate(token, service)
        own = await identity._keystone._auth.token()
        keystone_proxy.mode("500")
        with pytest.raises(ServiceUnavailable):
            await identity.authenticate("gAAAAnot-to-be-seen")
    for secret in (token, service, own, "not-to-be-seen", "testbed"):
        assert secret not in caplog.text
