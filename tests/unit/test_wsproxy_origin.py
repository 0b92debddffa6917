"""Origin: the proxy's own host and the operator's list, never what a request says beside; balancers only if trusted."""

from __future__ import annotations

import pytest

from zun.wsproxy.origin import NOT_VALID, OTHER_HOST, OTHER_SCHEME, Balancers, host_name, refusal


@pytest.mark.parametrize(
    ("origins", "host", "allowed", "scheme", "forwarded", "expected"),
    [
        ([], "a:6784", [], "ws", None, None),
        (["http://a:6784"], "a:6784", [], "ws", None, None),
        (["http://a:None"], "a:6784", [], "ws", None, None),
        (["http://A"], "a:1", [], "ws", None, None),
        (["ws://a"], "a", [], "ws", None, None),
        (["https://a"], "a", [], "wss", None, None),
        (["wss://a"], "a", [], "wss", None, None),
        (["http://[::1]:80"], "[::1]:6784", [], "ws", None, None),
        (["http://dashboard.example.org"], "a", [], "ws", None, OTHER_HOST),
        (["http://dashboard.example.org"], "a", ["Dashboard.Example.Org "], "ws", None, None),
        (["http://evil.dashboard.example.org"], "a", ["dashboard.example.org"], "ws", None, OTHER_HOST),
        (["http://dashboard.example.org.evil"], "a", ["dashboard.example.org"], "ws", None, OTHER_HOST),
        (["http://a@evil"], "a", [], "ws", None, OTHER_HOST),
        (["http://evil"], None, [], "ws", None, OTHER_HOST),
        (["http://a"], "a", [], "wss", None, OTHER_SCHEME),
        (["https://a"], "a", [], "ws", None, OTHER_SCHEME),
        (["http://a"], "a", [], "wss", "https", None),
        (["https://a"], "a", [], "wss", "http", OTHER_SCHEME),
        (["null"], "a", [], "ws", None, NOT_VALID),
        ([""], "a", [], "ws", None, NOT_VALID),
        (["http://"], "a", [], "ws", None, NOT_VALID),
        (["http://[::1"], "a", [], "ws", None, NOT_VALID),
        (["http://a", "http://b"], "a", [], "ws", None, NOT_VALID),
    ],
)
def test_refusals(
    origins: list[str],
    host: str | None,
    allowed: list[str],
    scheme: str,
    forwarded: str | None,
    expected: str | None,
) -> None:
    before = list(allowed)
    assert refusal(origins, host, allowed, scheme, forwarded) == expected
    assert allowed == before, "requests change no list"


@pytest.mark.parametrize(("host", "name"), [("a:1", "a"), ("[::1]:1", "::1"), ("", None), (None, None), ("[", None)])
def test_host_names(host: str | None, name: str | None) -> None:
    assert host_name(host) == name


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.1", ["10.0.0.1"], "192.0.2.1"),
        ("127.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("127.0.0.1", ["spoofed, 198.51.100.7, 10.0.0.5"], "198.51.100.7"),
        ("127.0.0.1", ["198.51.100.7", "10.0.0.5"], "198.51.100.7"),
        ("::ffff:127.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("127.0.0.1", [], "127.0.0.1"),
    ],
)
def test_where_from(peer: str, forwarded: list[str], client: str) -> None:
    assert Balancers(["127.0.0.1", "10.0.0.0/8"]).client(peer, forwarded) == client


def test_the_scheme_is_believed_from_balancers_only() -> None:
    balancers = Balancers(["127.0.0.1"])
    assert balancers.scheme("127.0.0.1", ["http, HTTPS"]) == "https"
    assert balancers.scheme("192.0.2.1", ["https"]) is None
    assert balancers.scheme("127.0.0.1", []) is None
