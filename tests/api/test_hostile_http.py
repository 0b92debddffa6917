"""Bytes on the wire that no honest client sends: each is answered or dropped, and the product goes on."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.live import Live, live, read
from tests.support.wait import wait_until

CLOSE = b"Host: localhost\r\nConnection: close\r\n"
LIST = b"GET /v1/containers HTTP/1.1\r\n"
POST = b"POST /v1/registries HTTP/1.1\r\nContent-Type: application/json\r\n"
BODY = b'{"registry": {"domain": "d"}}'


@pytest.fixture(scope="module")
def zun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("hostile") / "zun") as product:
        yield product
        assert "Traceback" not in product.log(), product.log()[-5000:]


@pytest.fixture
def token(zun: Live) -> bytes:
    return f"X-Auth-Token: {zun.admin}\r\nOpenStack-API-Version: container 1.40\r\n".encode()


def status(answer: bytes) -> int:
    found = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
    assert found, answer[:200]
    return int(found[1])


def alive(zun: Live, token: bytes) -> None:
    assert status(zun.raw(LIST + CLOSE + token + b"\r\n")) == 200


def line(method: str = "GET", path: str = "/v1/containers", version: str = "1.1") -> bytes:
    return f"{method} {path} HTTP/{version}\r\n".encode()


@pytest.mark.parametrize(
    ("head", "wanted"),
    [
        (line(version="1.0"), 200),
        (b"GET /v1/containers\r\n", 401),
        (line("HEAD"), 405),
        (line("OPTIONS"), 405),
        (line("TRACE"), 405),
        (line("CONNECT"), 405),
        (line("PROPFIND"), 405),
        (line("OPTIONS", "*"), 404),
        (line("CONNECT", "evil.example.org:80"), 400),
        (line("BREW"), 400),
        (line("GET", "http://evil.example.org/v1/containers"), 200),
        (line("GET", "/v1/containers/" + "a" * 60_000), 404),
        (line("GET", "/v1/containers/" + "a" * 300_000), 431),
        (line("GET", "/v1/containers?" + "&".join(f"p{n}=1" for n in range(5000))), 400),
        (line("GET", "/v1/containers?" + "&".join(f"name=n{n}" for n in range(999))), 200),
        (line("GET", "/v1/containers/a%00b"), 404),
        (line("GET", "/v1/containers/a%2Fb"), 404),
        (line("GET", "/v1/containers/..%2f..%2fservices"), 404),
        (line("GET", "/v1/containers/../services"), 404),
        (line("GET", "/v1/containers/%zz"), 404),
        (line("GET", "/v1/containers/%ff%fe"), 404),
        (line("GET", "/v1/containers/%25d%7B%7D%25s"), 404),
        ("GET /v1/containers/é HTTP/1.1\r\n".encode(), 400),
    ],
    ids=lambda value: value[:40].decode("latin-1") if isinstance(value, bytes) else str(value),
)
def test_request_lines(zun: Live, token: bytes, head: bytes, wanted: int) -> None:
    answer = zun.raw(head + (b"" if b"HTTP" not in head else CLOSE + token) + b"\r\n")
    assert status(answer) == wanted
    assert len(answer) < 4096
    assert b"x-openstack-request-id: req-" in answer
    if b"HEAD" in head:
        assert answer.endswith(b"\r\n\r\n")
    elif wanted >= 400:
        assert json.loads(answer.partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        (b"X-Auth-Token: other\r\n", 401),
        (b"OpenStack-API-Version: container 1.1\r\n", 406),
        (b"OpenStack-API-Version: container 1.40\r\n", 406),
        (b"Host: evil.example.org\r\n", 200),
        (b"Accept: text/html\r\nAccept: application/json\r\n", 200),
        (b"X-Roles: admin\r\nX-Project-Id: p\r\n", 200),
        (b"X-A: a\rb\r\n", 400),
        (b"X-A: a\r\n folded\r\n", 400),
        (b"X-A: \x00\r\n", 400),
        (b"Content-Length: -5\r\n", 400),
        (b"Content-Length: 5\r\nContent-Length: 6\r\n", 400),
        (b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", 400),
        (b"".join(b"X-%d: a\r\n" % n for n in range(3000)), 200),
        (b"".join(b"X-%d: a\r\n" % n for n in range(30000)), 431),
        (b"Upgrade: h2c\r\n", 200),
    ],
    ids=lambda value: value[:40].decode("latin-1") if isinstance(value, bytes) else str(value),
)
def test_headers(zun: Live, token: bytes, more: bytes, wanted: int) -> None:
    assert status(zun.raw(LIST + CLOSE + token + more + b"\r\n")) == wanted


@pytest.mark.parametrize("value", [b"x" * 50_000, "é☃".encode(), b"%d{}%s", b"' or 1=1 --"])
def test_tokens_that_are_none(zun: Live, value: bytes) -> None:
    assert status(zun.raw(LIST + CLOSE + b"X-Auth-Token: " + value + b"\r\n\r\n")) == 401


def test_no_header_moves_the_links(zun: Live) -> None:
    forged = b'Host: evil"><script>\r\nX-Forwarded-Host: evil.example.org\r\nX-Forwarded-Proto: javascript\r\n'
    answer = zun.raw(line("GET", "/") + forged + b"Forwarded: host=evil\r\nConnection: close\r\n\r\n")
    assert b"evil" not in answer
    assert f'"href":"http://127.0.0.1:{zun.port}/v1/"'.encode() in answer
    answer = zun.raw(line("GET", "/") + b"Host: a\r\nX-Forwarded-Proto: wss\r\nConnection: close\r\n\r\n")
    assert b'"href":"http://a/v1/"' in answer


def test_an_endless_header_is_cut_off(zun: Live, token: bytes) -> None:
    answer = zun.raw(LIST + CLOSE + b"X-A: " + b"a" * 3_000_000)
    assert not answer or status(answer) == 431
    alive(zun, token)


@pytest.mark.parametrize(
    "start", [b"\x00\xff\x01" * 20, bytes.fromhex("16030100a5010000a1") + b"a" * 160, b"PRI * HTTP/2.0\r\n\r\nSM"]
)
def test_other_protocols(zun: Live, start: bytes) -> None:
    answer = zun.raw(start + b"\r\n\r\n")
    assert status(answer) == 400
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["errors"][0]["title"] == "The request is not valid HTTP/1.1."


# -- bodies ---------------------------------------------------------------------------------------


def test_chunked_bodies(zun: Live, token: bytes) -> None:
    head = POST + CLOSE + token + b"Transfer-Encoding: chunked\r\n\r\n"
    assert status(zun.raw(head + b"".join(b"1\r\n%c\r\n" % one for one in BODY) + b"0\r\n\r\n")) == 201
    assert status(zun.raw(head + b'5\r\n{"re\r\nzz\r\n')) == 400
    endless = b"10000\r\n" + b" " * 65536 + b"\r\n"
    assert status(zun.raw(head + endless * 20 + b"0\r\n\r\n")) == 413


def test_bodies_that_are_too_large(zun: Live, token: bytes) -> None:
    assert status(zun.raw(POST + CLOSE + token + b"Content-Length: 99999999999\r\n\r\n")) == 413
    sent = POST + CLOSE + token + b"Content-Length: 9999999\r\n\r\n" + b"x" * 9_999_999
    answer = zun.raw(sent)
    assert not answer or status(answer) == 413
    alive(zun, token)


def test_expect_continue(zun: Live, token: bytes) -> None:
    head = POST + CLOSE + b"Expect: 100-continue\r\nContent-Length: %d\r\n" % len(BODY)
    with socket.create_connection(("127.0.0.1", zun.port), timeout=60) as link:
        link.sendall(head + token + b"\r\n")
        assert read(link, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        link.sendall(BODY)
        assert status(read(link)) == 201
    assert status(zun.raw(head + b"\r\n")) == 401


def test_pipelined_requests_are_answered_in_order(zun: Live, token: bytes) -> None:
    one = POST + b"Host: a\r\n" + token + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    answer = zun.raw(one * 5 + line("GET", "/v1/nothing") + b"Host: a\r\n\r\n" + LIST + CLOSE + token + b"\r\n")
    assert re.findall(rb"HTTP/1.1 (\d{3}) ", answer) == [b"201"] * 5 + [b"404", b"200"]
    answer = zun.raw(one * 2 + b"garbage\r\n\r\n")
    assert re.findall(rb"HTTP/1.1 (\d{3}) ", answer) == [b"201"] * 2, "what came before the garbage is answered"


# -- slowness and going away ----------------------------------------------------------------------


def test_a_slow_body_is_given_up(tmp_path: Path) -> None:
    with live(tmp_path / "zun", {"api": {"body_timeout": 0.3}}) as zun:
        head = POST + b"Host: a\r\n" + f"X-Auth-Token: {zun.admin}\r\n".encode() + b"Content-Length: 999\r\n\r\n{"
        answer = zun.raw(head)
        assert status(answer) == 408
        error = json.loads(answer.partition(b"\r\n\r\n")[2])["errors"][0]
        assert error["code"] == "container.request-timeout"
        assert error["title"] == "The request body did not arrive within 0.3 seconds."
        assert b"connection: close" in answer
        assert "Traceback" not in zun.log()


def test_clients_that_go_away(zun: Live, token: bytes) -> None:
    whole = POST + CLOSE + token + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    for data in (b"", LIST[:7], LIST + CLOSE + token[:20], LIST + CLOSE + token + b"\r\n", whole[:-9], whole):
        for linger in (b"\x00" * 8, b"\x01\x00\x00\x00\x00\x00\x00\x00"):
            with socket.create_connection(("127.0.0.1", zun.port)) as link:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                link.sendall(data)
    wait_until(lambda: "status=499" in zun.log(), 30, "a body that broke off is in the log")
    alive(zun, token)
    assert "Traceback" not in zun.log()


def test_five_hundred_connections_at_once(zun: Live, token: bytes) -> None:
    assert zun.process is not None
    soft, hard = psutil.Process(zun.process.pid).rlimit(psutil.RLIMIT_NOFILE)
    assert soft == min(hard, 65536) or soft > 65536
    links = [socket.create_connection(("127.0.0.1", zun.port), timeout=60) for _ in range(500)]
    try:
        for link in links:
            link.sendall(LIST + CLOSE + token + b"\r\n")
        assert {status(read(link)) for link in links} == {200}
    finally:
        for link in links:
            link.close()
