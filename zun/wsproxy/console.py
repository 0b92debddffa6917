"""The page on which a browser opens sessions: what the proxy answers to plain requests for it (scenario 4).

The files are built from `console/` and read once. Which of them is served is looked up in a table by the last part of
the path: no request names a file, and a balancer may put any prefix before it, as for sessions.
"""

from __future__ import annotations

import gzip
import hashlib
import ipaddress
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from importlib import resources
from urllib.parse import urlsplit

from websockets.datastructures import Headers
from websockets.http11 import Request, Response

PAGE = "console"
"""The last part of the page's path; its query names the session."""

_FILES = {
    PAGE: ("console.html", "text/html; charset=utf-8"),
    "console.js": ("console.js", "text/javascript; charset=utf-8"),
    "console.css": ("console.css", "text/css; charset=utf-8"),
    "console.svg": ("console.svg", "image/svg+xml"),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """To a plain HTTP request."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


class Console:
    """``base_url`` and ``allowed_origins`` are the options: the proxy's own address, and the host names of dashboards,
    which may also show the page within theirs."""

    def __init__(self, base_url: str, allowed_origins: Collection[str] = ()) -> None:
        self._common = {
            "Content-Security-Policy": content_security_policy(base_url, allowed_origins),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",  # the page's address holds the token
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        folder = resources.files("zun.wsproxy") / "static"
        self._files = {name: _File((folder / file).read_bytes(), kind) for name, (file, kind) in _FILES.items()}

    def __call__(self, request: Request) -> Response | None:
        """The same in the terms of websockets, whose servers close the connection after an answer."""
        answer = self.answer(request.method, request.path, request.headers)
        if answer is None:
            return None
        always = {"Date": formatdate(usegmt=True), "Connection": "close", "Content-Length": str(len(answer.body))}
        headers = Headers(answer.headers | always)
        return Response(answer.status, HTTPStatus(answer.status).phrase, headers, answer.body)

    def answer(self, method: str, path: str, asked: Mapping[str, str] | None = None) -> Answer | None:
        """To a request that opens no session. ``path`` may have a query, ``asked`` are the headers; names of both are
        compared as they are. None: it is not about the page."""
        name = path.partition("?")[0].rpartition("/")[2]
        if not name.startswith(PAGE):
            return None
        file = self._files.get(name)
        if file is None:
            return self._text(404, "The proxy has no such file.")
        if method != "GET":
            return self._text(405, "The page is read with GET.", Allow="GET")
        return file.answer(self._common, asked or {})

    def _text(self, status: int, text: str, **more: str) -> Answer:
        headers = {"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store"}
        return Answer(status, self._common | headers | more, f"{text}\n".encode())


class _File:
    def __init__(self, body: bytes, kind: str) -> None:
        self._kind = kind
        self._etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        self._bodies = {"": body, "gzip": gzip.compress(body, mtime=0)}

    def answer(self, common: Mapping[str, str], asked: Mapping[str, str]) -> Answer:
        headers = {**common, "Content-Type": self._kind, "Vary": "Accept-Encoding"}
        if self._kind.startswith("text/html"):
            headers["Cache-Control"] = "no-store"  # its address holds a token
        else:
            headers |= {"Cache-Control": "no-cache", "ETag": f"W/{self._etag}"}  # asked for again after each upgrade
            if self._etag in {tag.strip().removeprefix("W/") for tag in asked.get("If-None-Match", "").split(",")}:
                return Answer(304, headers)
        coding = "gzip" if _takes_gzip(asked.get("Accept-Encoding", "")) else ""
        if coding:
            headers["Content-Encoding"] = coding
        return Answer(200, headers, self._bodies[coding])


def _takes_gzip(accept_encoding: str) -> bool:
    codings = [coding.replace(" ", "").lower() for coding in accept_encoding.split(",")]
    return any(coding == "gzip" or (coding.startswith("gzip;q=") and coding[7:].strip("0.")) for coding in codings)


def content_security_policy(base_url: str, allowed_origins: Collection[str]) -> str:
    """Scripts and styles of this proxy only, connections to it only, shown within pages of ``allowed_origins`` only.

    Host names are compared without scheme and port, as those of Origin headers are.
    """
    url = urlsplit(base_url)
    # 'self' alone is no WebSocket for older browsers
    own = [f"{url.scheme}://{url.netloc}"] if _is_host(url.hostname or "") else []
    frames = [f"{host}:*" for entry in allowed_origins if _is_host(host := entry.strip().lower())]
    policy = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "connect-src": " ".join(["'self'", *own]),
        "form-action": "'none'",
        "base-uri": "'none'",
        "frame-ancestors": " ".join(frames) or "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in policy.items())


def _is_host(text: str) -> bool:
    """May it stand in a policy: a name or an IPv4 address? There is no notation for IPv6 addresses."""
    try:
        return ipaddress.ip_address(text).version == 4
    except ValueError:
        return bool(text) and all(part.replace("-", "").isalnum() and part.isascii() for part in text.split("."))
