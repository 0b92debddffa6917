"""Who is let in at a relay, and to what: certificates, and each session once."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from cryptography import x509
from websockets.exceptions import InvalidStatus

from tests.support.relay import RelayBench, relay_bench
from tests.support.runtimes import SimulatedBench
from tests.support.sessions import SessionsBench
from zun.conf import ConfigError
from zun.relay import tls
from zun.relay.certificates import LASTS, RENEWED, Folder


@pytest.fixture
async def bench() -> AsyncIterator[SessionsBench]:
    made = SimulatedBench("busybox:latest")
    try:
        yield SessionsBench(made, real=False)
    finally:
        await made.close()


@pytest.fixture
async def node(bench: SessionsBench, tmp_path: Path) -> AsyncIterator[RelayBench]:
    async with relay_bench(bench, tmp_path / "state") as made:
        yield made


def knocks(address: str, context: ssl.SSLContext) -> bytes:
    """What is answered to an HTTP request; raises SSLError or ConnectionError where the handshake is refused."""
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=20) as plain,
        context.wrap_socket(plain, suppress_ragged_eofs=False) as wrapped,
    ):
        wrapped.sendall(b"GET /v1/sessions/x HTTP/1.1\r\nHost: x\r\n\r\n")
        return wrapped.recv(1000)


def stranger(ca: Path, pair: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca))
    context.check_hostname = False
    if pair is not None:
        context.load_cert_chain(*pair)
    return context


@pytest.mark.parametrize("who", ["nobody", "another CA's", "a relay"])
async def test_handshake_refuses_who_is_no_proxy(node: RelayBench, tmp_path: Path, who: str) -> None:
    own = Folder(Path(node.conf.state_path) / "relay")
    pair = None
    if who == "another CA's":
        other = Folder(tmp_path / "other").proxy()
        pair = (other.certificate, other.key)
    elif who == "a relay":
        mine = own.relay(tls.names(node.conf))
        pair = (mine.certificate, mine.key)
    assert node.relay.address is not None
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.to_thread(knocks, node.relay.address, stranger(own.ca, pair))
    assert node.relay.open_sessions == 0


async def test_nothing_older_than_tls_1_3(node: RelayBench) -> None:
    context = tls.proxy_context(node.conf)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    assert node.relay.address is not None
    with pytest.raises(ssl.SSLError):
        await asyncio.to_thread(knocks, node.relay.address, context)


async def test_proxy_does_not_talk_to_a_relay_of_another_authority(node: RelayBench, tmp_path: Path) -> None:
    other = Folder(tmp_path / "other")
    pair = other.proxy()
    with pytest.raises(ssl.SSLCertVerificationError):
        async with node.proxy("/v1/sessions/x", ssl=stranger(other.ca, (pair.certificate, pair.key))):
            raise AssertionError("it connected")


async def test_proxy_refuses_a_relay_under_a_name_that_its_certificate_does_not_have(node: RelayBench) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        async with node.proxy("/v1/sessions/x", server_hostname="elsewhere.example"):
            raise AssertionError("it connected")


async def test_only_named_proxies_where_names_are_given(bench: SessionsBench, tmp_path: Path) -> None:
    async with relay_bench(bench, tmp_path / "named", proxy_names="other-proxy") as node:
        with pytest.raises(InvalidStatus, match="403"):
            async with node.proxy("/v1/sessions/x"):
                raise AssertionError("it connected")
    async with relay_bench(bench, tmp_path / "named", proxy_names="other-proxy,zun-wsproxy") as node:
        uuid = await bench.running()
        async with node.proxy(await node.exec_row(uuid, "true", stdin=False)) as proxy:
            await proxy.rest()
        assert (proxy.exit, proxy.closed[0]) == (0, 1000)


@pytest.mark.parametrize("why", ["unknown", "no uuid", "not opened", "opened long ago", "ended", "of another node"])
async def test_session_that_is_not_to_be_had(node: RelayBench, why: str) -> None:
    uuid = await node.bench.running()
    now = node.clock.now()
    fields = {
        "not opened": {"opened_at": None},
        "opened long ago": {"opened_at": now - timedelta(seconds=61)},
        "ended": {"ended_at": now},
        "of another node": {"host": "node-2"},
    }
    row = await node.row(uuid, command=["true"], exec_id="ab" * 32, **fields.get(why, {}))
    path = {"unknown": f"/v1/sessions/{uuid4()}", "no uuid": "/v1/sessions/../../etc"}.get(why)
    async with node.proxy(path or row) as proxy:
        assert await proxy.rest() == b""
    assert proxy.closed == (1008, "No such session is to be opened on this node now.")
    assert (await node.stored(row.uuid)).connected_at is None


async def test_session_is_connected_once(node: RelayBench) -> None:
    uuid = await node.bench.running()
    row = await node.exec_row(uuid, "cat")
    async with node.proxy(row) as first:
        await first.send(b"x")
        await first.until(b"x")
        async with node.proxy(row) as second:
            await second.rest()
        assert second.closed[0] == 1008
        await first.eof()
        await first.rest()
    async with node.proxy(row) as third:
        await third.rest()
    assert (first.closed[0], third.closed[0]) == (1000, 1008)


async def test_one_session_more_than_the_node_takes(bench: SessionsBench, tmp_path: Path) -> None:
    async with relay_bench(bench, tmp_path / "full", max_sessions=1) as node:
        uuid = await bench.running()
        async with node.proxy(await node.exec_row(uuid, "cat")) as first:
            await first.send(b"x")
            await first.until(b"x")
            row = await node.exec_row(uuid, "cat")
            async with node.proxy(row) as second:
                await second.rest()
            assert second.closed[0] == 1013
            assert (await node.stored(row.uuid)).connected_at is None
            await first.eof()
            await first.rest()


async def test_input_of_a_session_without_any_goes_nowhere(node: RelayBench) -> None:
    uuid = await node.bench.running()
    async with node.proxy(await node.exec_row(uuid, "cat", stdin=False)) as proxy:
        await proxy.send(b"not for it")
        await proxy.connection.send("no json")
        await proxy.connection.send('{"resize": {"height": -1, "width": "x"}}')
        await proxy.eof()
        assert await proxy.rest() == b""


async def test_frame_that_is_too_large_ends_the_session(node: RelayBench) -> None:
    uuid = await node.bench.running()
    async with node.proxy(await node.exec_row(uuid, "cat")) as proxy:
        await proxy.send(bytes(256 * 1024 + 1))
        await proxy.rest()
    assert proxy.closed[0] == 1009


# -- certificates ----------------------------------------------------------------------------------------


def test_files_are_their_owners_only(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "relay")
    folder.relay(["localhost"])
    folder.proxy()
    assert stat.S_IMODE((tmp_path / "relay").stat().st_mode) == 0o700
    made = sorted(os.listdir(tmp_path / "relay"))
    assert made == ["ca.key", "ca.pem", "lock", "proxy.key", "proxy.pem", "relay.key", "relay.pem"]
    assert {stat.S_IMODE((tmp_path / "relay" / name).stat().st_mode) for name in made} == {0o600}


def test_pair_is_kept_while_it_fits_and_renewed_before_its_end(tmp_path: Path) -> None:
    folder, now = Folder(tmp_path / "relay"), datetime.now(UTC)
    first = folder.relay(["localhost", "127.0.0.1"], now).certificate.read_bytes()
    assert folder.relay(["127.0.0.1", "localhost"], now).certificate.read_bytes() == first
    late = now + LASTS - RENEWED + timedelta(days=1)
    second = folder.relay(["localhost", "127.0.0.1"], late).certificate.read_bytes()
    assert second != first
    assert x509.load_pem_x509_certificate(second).not_valid_after_utc > late + timedelta(days=300)
    assert folder.relay(["other.example"], late).certificate.read_bytes() != second


def test_authority_is_renewed_while_it_outlasts_what_it_signs(tmp_path: Path) -> None:
    folder, now = Folder(tmp_path / "relay"), datetime.now(UTC)
    folder.proxy(now)
    first = folder.ca.read_bytes()
    folder.proxy(now + timedelta(days=3000))
    assert folder.ca.read_bytes() == first
    pair = folder.proxy(now + timedelta(days=3300))
    assert folder.ca.read_bytes() != first
    made = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    made.verify_directly_issued_by(x509.load_pem_x509_certificate(folder.ca.read_bytes()))


def test_broken_files_are_made_anew(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "relay")
    pair = folder.proxy()
    pair.key.write_text("not a key")
    folder.ca.write_text("")
    made = folder.proxy()
    x509.load_pem_x509_certificate(made.certificate.read_bytes()).verify_directly_issued_by(
        x509.load_pem_x509_certificate(folder.ca.read_bytes())
    )


async def test_several_machines_need_certificates(bench: SessionsBench, tmp_path: Path) -> None:
    """Without any there is no relay; with wrong ones the agent does not start, and says what to change."""
    async with relay_bench(bench, tmp_path / "state") as node:
        node.conf.set_override("transport_url", "rabbit://u:p@127.0.0.1:1/")
        other = replace(node.node)
        relay = type(node.relay)(other)
        async with relay.serving():
            assert relay.address is None
        node.conf.set_override("ca_file", str(tmp_path / "absent.pem"), group="relay")
        with pytest.raises(ConfigError, match="cert_file"):
            async with type(node.relay)(other).serving():
                raise AssertionError("it serves")
        for option in ("cert_file", "key_file"):
            node.conf.set_override(option, str(tmp_path / "absent.pem"), group="relay")
        with pytest.raises(ConfigError, match=r"absent\.pem"):
            async with type(node.relay)(other).serving():
                raise AssertionError("it serves")


async def test_relay_and_proxy_of_two_machines_with_given_files(bench: SessionsBench, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "given")
    relay, proxy_pair = folder.relay(["127.0.0.1"]), folder.proxy()
    options = {
        "ca_file": folder.ca,
        "cert_file": relay.certificate,
        "key_file": relay.key,
        "client_cert_file": proxy_pair.certificate,
        "client_key_file": proxy_pair.key,
    }
    async with relay_bench(bench, tmp_path / "state", **options) as node:
        uuid = await bench.running()
        async with node.proxy(await node.exec_row(uuid, "echo", "hello", stdin=False)) as proxy:
            assert await proxy.rest() == b"hello\n"
    assert not (tmp_path / "state" / "relay").exists()
