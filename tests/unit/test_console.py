"""What the proxy answers for the page of sessions, and that the page is the one of its sources."""

from __future__ import annotations

import gzip
import hashlib
from importlib import resources
from pathlib import Path

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Request

from zun.wsproxy.console import Answer, Console, content_security_policy

BASE = "wss://sessions.example:6784/"
SOURCES = Path(__file__).parents[2] / "console"
STATIC = resources.files("zun.wsproxy") / "static"


def ask(path: str, method: str = "GET", **asked: str) -> Answer:
    headers = {name.replace("_", "-"): value for name, value in asked.items()}
    answer = Console(BASE).answer(method, path, headers)
    assert answer is not None
    return answer


def policy(text: str) -> dict[str, list[str]]:
    return {name: values for name, *values in (part.split() for part in text.split(";"))}


@pytest.mark.parametrize("path", ["/console?token=secret&uuid=web", "/console", "/balancer/zun/console?token=secret"])
def test_the_page_is_served_under_any_prefix(path: str) -> None:
    answer = ask(path)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.body.startswith(b"<!doctype html>")
    assert b"secret" not in answer.body
    assert "secret" not in str(answer.headers)


def test_the_page_needs_only_files_that_are_served() -> None:
    page = ask("/console").body.decode()
    for name, kind in (
        ("console.js", "text/javascript"),
        ("console.css", "text/css"),
        ("console.svg", "image/svg+xml"),
    ):
        assert f'"{name}"' in page
        answer = ask(f"/zun/{name}")
        assert (answer.status, answer.headers["Content-Type"].partition(";")[0]) == (200, kind)
        assert answer.body == (STATIC / name).read_bytes()
    assert "<style" not in page
    assert " style=" not in page
    assert "http:" not in page
    assert page.count("<script") == 1  # the one with a source


@pytest.mark.parametrize(
    "path",
    [
        "/console.map",
        "/console.html",
        "/consoles",
        "/console..",
        "/console%00",
        "/console.js%2f..%2fsecret",
        "/x/console.py",
    ],
)
def test_unknown_names_are_not_found(path: str) -> None:
    answer = ask(path)
    assert answer.status == 404
    assert answer.body == b"The proxy has no such file.\n"


@pytest.mark.parametrize(
    "path",
    ["/", "", "/?token=t&uuid=console", "/console/", "/console/../../etc/passwd", "/static/LICENSE.txt", "*"],
)
def test_other_paths_are_left_to_the_proxy(path: str) -> None:
    assert Console(BASE).answer("GET", path) is None


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "get"])
def test_the_page_is_only_read(method: str) -> None:
    refused = ask("/console?token=secret", method)
    assert (refused.status, refused.headers["Allow"]) == (405, "GET")


def test_files_are_asked_for_again_and_sent_only_when_they_changed() -> None:
    first = ask("/console.js")
    assert first.headers["Cache-Control"] == "no-cache"
    tag = first.headers["ETag"]
    for tags in (tag, f'"other", {tag.removeprefix("W/")}'):
        again = ask("/console.js", If_None_Match=tags)
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)
    assert ask("/console.js", If_None_Match='"other"').status == 200
    assert ask("/console.css", If_None_Match=tag).status == 200
    assert "ETag" not in ask("/console").headers


def test_clients_that_take_gzip_get_it() -> None:
    plain = ask("/console.js")
    assert "Content-Encoding" not in plain.headers
    for accepted in ("gzip", "br, gzip;q=0.5", "deflate, GZIP"):
        answer = ask("/console.js", Accept_Encoding=accepted)
        assert (answer.headers["Content-Encoding"], answer.headers["Vary"]) == ("gzip", "Accept-Encoding")
        assert len(answer.body) < len(plain.body) / 2
        assert gzip.decompress(answer.body) == plain.body
    for accepted in ("", "br", "gzip;q=0", "gzip; q=0.000"):
        assert ask("/console.js", Accept_Encoding=accepted) == plain


def test_an_answer_in_the_terms_of_websockets() -> None:
    console = Console(BASE)
    found = console(Request("/console?token=secret", Headers(Host="sessions.example")))
    assert found is not None
    assert (found.status_code, found.reason_phrase) == (200, "OK")
    assert found.headers["Content-Length"] == str(len(found.body))
    assert found.headers["Connection"] == "close"
    unchanged = Headers({"if-none-match": ask("/console.js").headers["ETag"]})
    not_sent = console(Request("/console.js", unchanged))
    assert not_sent is not None
    assert (not_sent.status_code, not_sent.body) == (304, b"")
    assert console(Request("/", Headers())) is None


@pytest.mark.parametrize("path", ["/console", "/console.js", "/console.css", "/console.svg", "/console.map"])
def test_every_answer_keeps_the_browser_strict(path: str) -> None:
    headers = ask(path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert policy(headers["Content-Security-Policy"]) == {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'"],
        "connect-src": ["'self'", "wss://sessions.example:6784"],
        "form-action": ["'none'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }


def test_only_dashboards_that_may_open_sessions_may_frame_the_page() -> None:
    origins = ("dashboard.example", " Horizon ", "192.0.2.7", "2001:db8::1", "evil; script-src *", "*", "")
    found = policy(content_security_policy(BASE, origins))
    assert found["frame-ancestors"] == ["dashboard.example:*", "horizon:*", "192.0.2.7:*"]
    assert found["script-src"] == ["'self'"]


def test_an_address_without_notation_in_a_policy_is_left_to_self() -> None:
    assert policy(content_security_policy("ws://[::1]:6784/", ()))["connect-src"] == ["'self'"]


def test_the_committed_build_is_of_these_sources() -> None:
    """Without npm; `make check` builds it anew where npm is and compares every byte."""
    told = dict(reversed(line.split("  ")) for line in (STATIC / "SOURCES.sha256").read_text().splitlines())
    names = ["package.json", "build.mjs", *(f"src/{path.name}" for path in (SOURCES / "src").iterdir())]
    found = {name: hashlib.sha256((SOURCES / name).read_bytes()).hexdigest() for name in names}
    assert told == found, "run scripts/console.sh build, and commit what it changes"


def test_licences_of_what_is_bundled_stand_beside_it() -> None:
    for name in ("LICENSE.xterm.txt", "LICENSE.addon-fit.txt"):
        assert "Permission is hereby granted, free of charge" in (STATIC / name).read_text()
