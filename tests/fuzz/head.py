"""The head of a request and its framing, changed as no client library would send it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

LARGEST_BODY = 1024 * 1024
"""What ``[api]/max_body_bytes`` is by default."""
_LARGEST_HEAD = 60_000
MEMBER, ADMIN, OTHER = b"@member@", b"@admin@", b"@other@"
"""Stand for tokens until the request is sent; as any text between two ``@`` stands for something of the product's."""


@dataclass
class Head:
    """A request, in parts that can still be changed."""

    label: str
    method: bytes
    target: bytes
    body: bytes = b""
    protocol: bytes = b"HTTP/1.1"
    pairs: list[tuple[bytes, bytes]] = field(default_factory=list)
    framed: bool = True
    """Does HTTP promise an answer? Not to what cannot be told where it ends, nor to what is too large."""
    patient: bool = False
    """Wait on an open connection for the answer to what never ends."""
    encoded: bytes | None = None
    """The body as it is on the wire, when it is not as it is."""
    measured: bool = True
    """Is a right Content-Length to be added?"""

    def put(self, name: bytes, value: bytes) -> None:
        """The only header of that name."""
        self.pairs = [pair for pair in self.pairs if pair[0].lower() != name.lower()]
        self.pairs.append((name, value))


def _one_of(name: bytes, values: list[bytes], *, also: bool = False) -> Callable[[Random, Head], None]:
    """Sets a header; ``also``: beside one that is there."""

    def change(random: Random, head: Head) -> None:
        value = random.choice(values)
        if also and random.getrandbits(1):
            head.pairs.append((name, value))
        else:
            head.put(name, value)

    return change


_VERSIONS = [
    b"container 1.1", b"container 1.12", b"container 1.19", b"container 1.24", b"container 1.25", b"container 1.31",
    b"container 1.39", b"container latest", b"container LATEST", b"compute latest", b"container 1.0", b"container 1.41",
    b"container 2.1", b"container 1", b"container 1.1.1", b"container 01.040", b"container 1.-1", b"container 1.1e1",
    b"container", b"", b" ", b"1.40", b"compute 1.40", b"container 1.40, compute 2.1", b"container\t1.40",
    b"container  1.40", b"CONTAINER 1.40", b"container 1.40 x", b"container " + b"9" * 5000,
    b"container 1." + b"0" * 300, "container １.４０".encode(), b"container \xb2.1", b"container 1.\xff",
    b"container %s",
]  # fmt: skip
_TYPES = [
    b"", b"application/json", b"application/json; charset=utf-8", b"application/json; charset=utf-16",
    b"Application/JSON", b"application/json;", b"application/json, text/plain", b"text/plain",
    b"application/octet-stream",
    b"application/x-www-form-urlencoded", b"multipart/form-data", b"application/vnd.x+json", b"application/xml", b"/",
    b";;;", b"\xff", b"x" * 5000, b"application/json\x01", b"application/json; charset=\xe9",
]  # fmt: skip
_ACCEPTS = [
    b"", b"*/*", b"text/html", b"application/xml", b"text/event-stream", b"application/json;q=0", b",,,", b"\xff\xfe",
    b"application/json" * 300, b"a/b;q=" + b"9" * 400, b"application/*",
]  # fmt: skip
_KEYS = [
    b"one", b"two", b"", b" ", b"x" * 255, b"x" * 256, b"x" * 9000, b"\xff", "é".encode(), b'"quoted"', b"a,b", b"a b",
    b"%s%d", b"' or 1=1 --", b"\x7f", b"..", b"{}",
]  # fmt: skip
_TOKENS = [
    b"", b" ", b"x", b"x" * 30_000, b"\xff\xfe", "é☃".encode(), MEMBER + b"x", MEMBER + b", " + ADMIN, b"null", b"%s",
    b"Bearer " + MEMBER, MEMBER.upper(), b"a" * 43,
]  # fmt: skip
_CLAIMED = [
    b"X-Roles", b"X-Role", b"X-Project-Id", b"X-User-Id", b"X-Identity-Status", b"X-Is-Admin-Project", b"X-Tenant-Id",
    b"X-Service-Roles", b"X-System-Scope", b"OpenStack-System-Scope", b"X-Service-Catalog", b"X-Domain-Id", b"X_Roles",
    b"X-Forwarded-For", b"X-Forwarded-Proto", b"X-Forwarded-Host", b"Forwarded", b"X-HTTP-Method-Override",
]  # fmt: skip
_CLAIMS = [
    b"admin", b"Confirmed", b"True", b"all", b"0" * 32, b"127.0.0.1", b"", b"\xff", b"x" * 9000, b"javascript",
    b"for=[::1];proto=https", b"1.2.3.4, " * 300, b"999.9.9.9", b"DELETE", b"[", b"{}",
]  # fmt: skip
_IDS = [b"req-00000000-0000-0000-0000-000000000000", b"x", b"", b"\xff", b"x" * 9000, b"req-%s", b"a,b"]
_HOSTS = [
    b"",
    b"evil.example.org",
    b"a:b",
    b"[::1]:9517",
    b"\xff",
    b"a" * 5000,
    b'"><script>',
    b"127.0.0.1:99999",
    b"a b",
]
_LOOKS = [b"\xff\xfe", "é☃".encode(), b"\x00", b"\x01", b"a\rb", b"a\nb", b"\x7f", b"x" * 20_000, b"\r", b"\t", b"\x0b"]
_ODD_NAMES = [b"X Y", b"", b"X\x00", b"\xff", b"X:", b"content-length ", b"(x)", b" X", b"X" * 20_000, "Ｘ".encode()]
_METHODS = [b"PUT", b"OPTIONS", b"TRACE", b"PROPFIND", b"BREW", b"post", b"", b"GET\t", b"HEAD", b"QUERY", b"\xff"]
_PROTOCOLS = [
    b"HTTP/1.0",
    b"HTTP/0.9",
    b"HTTP/2.0",
    b"HTTP/1.9",
    b"HTTP/1.1 ",
    b"http/1.1",
    b"HTTPS/1.1",
    b"",
    b"ICE/1.0",
]
_LENGTHS = [
    b"0", b"-1", b"+5", b"5, 5", b"5, 6", b"0x5", b"1e1", b"", b" ", b"9" * 30, b"1048577", b"5.0", b"\xff",
    "５".encode(), b"18446744073709551616", b"null",
]  # fmt: skip
_ENCODINGS = [
    b"gzip",
    b"identity",
    b"chunked, chunked",
    b"gzip, chunked",
    b"chunked, gzip",
    b"xchunked",
    b"",
    b"CHUNKED",
]


def _claim(random: Random, head: Head) -> None:
    head.pairs.append((random.choice(_CLAIMED), random.choice(_CLAIMS)))


def _look(random: Random, head: Head) -> None:
    """Bytes that headers do not have; the request may then be no request."""
    value = random.choice(_LOOKS)
    name = random.choice([b"X-A", b"Accept", b"Idempotency-Key", b"X-Service-Token", b"User-Agent"])
    head.pairs.append((name, value))
    head.framed &= value.isascii() and value.isalpha()


def _odd_name(random: Random, head: Head) -> None:
    head.pairs.insert(random.randint(0, len(head.pairs)), (random.choice(_ODD_NAMES), b"1"))
    head.framed = False


def _again(random: Random, head: Head) -> None:
    if head.pairs:
        name, value = random.choice(head.pairs)
        head.pairs.append((name, value))
        head.framed &= name.lower() not in (b"host", b"content-length", b"transfer-encoding")


def _many(random: Random, head: Head) -> None:
    head.pairs.extend((b"X-%d" % number, b"a") for number in range(random.choice((50, 500, 5000))))


def _method(random: Random, head: Head) -> None:
    head.method = random.choice(_METHODS)
    head.framed &= head.method in (b"PUT", b"OPTIONS", b"TRACE", b"PROPFIND", b"HEAD")


def _protocol(random: Random, head: Head) -> None:
    head.protocol = random.choice(_PROTOCOLS)
    head.framed &= head.protocol == b"HTTP/1.0"


def _target(random: Random, head: Head) -> None:
    path, mark, query = head.target.partition(b"?")
    forms = [
        path + b"/" + mark + query, b"//" + path[1:] + mark + query, path + b"%00", path + b"#x" + mark + query,
        path + b".json" + mark + query, path + b"/%2e%2e/x", path + b";x=1", path + b"%ff", path.upper(), path + b"%",
        path + b"?" + b"a=1&" * 1001, path + b"?" + b"a" * 30_000, path + b"?%00=%00", path + b"?=&&==&",
        b"http://evil.example.org" + path + mark + query, path + b"\xff", path + b" " + query, path[3:] + mark + query,
        path + b"?name=%ed%a0%80&x=%zz", path + b"?" + query + b"&" + query, path + b"\x01", b"*", b"",
    ]  # fmt: skip
    head.target = random.choice(forms)
    head.framed &= head.target.isascii() and b" " not in head.target and b"\x01" not in head.target
    head.framed &= bool(head.target) and not head.target.startswith(b"*")


def _length(random: Random, head: Head) -> None:
    """A Content-Length that does not tell where the body ends."""
    right = len(head.body)
    wrong = [b"%d" % (right + 1), b"%d" % max(0, right - 1), b"%d" % (right * 2 + 9), b"00%d" % right, *_LENGTHS]
    head.put(b"Content-Length", random.choice(wrong))
    if not random.randint(0, 3):
        head.pairs.append((b"Content-Length", b"%d" % right))
    head.measured = head.framed = False
    head.patient = not random.randint(0, 39)


def _chunked(random: Random, head: Head) -> None:
    """Well-formed chunks, with what the standard permits around them."""
    size = random.choice((1, 7, 100, 65_536))
    size = max(size, len(head.body) // 500)
    extension = random.choice((b"", b";a=b", b'; x="y;z"', b";" + b"q" * 300))
    trailer = random.choice((b"", b"", b"X-Trailer: 1\r\n"))
    pieces = [head.body[start : start + size] for start in range(0, len(head.body), size)]
    text = b"".join(b"%x%s\r\n%s\r\n" % (len(piece), extension, piece) for piece in pieces)
    head.encoded = text + b"0\r\n" + trailer + b"\r\n"
    head.put(b"Transfer-Encoding", random.choice((b"chunked", b"Chunked")))
    head.measured = False


def _bad_chunks(random: Random, head: Head) -> None:
    size = len(head.body)
    forms = [
        b"zz\r\n", b"-1\r\n", b"%x\r\n%s" % (size, head.body), b"%x\r\n%s\r\n" % (size + 5, head.body), b"5",
        b"ffffffffffffffffff\r\n", b"0x5\r\nhello\r\n0\r\n\r\n", b"%x\n%s\n0\n\n" % (size, head.body), b"\r\n\r\n",
        b"5 \r\nhello\r\n0\r\n\r\n", b"0\r\nX: \x00\r\n\r\n", b"0\r\n" + b"X: y\r\n" * 20_000, b"1;" + b"a" * 200_000,
    ]  # fmt: skip
    head.encoded = random.choice(forms)
    head.put(b"Transfer-Encoding", b"chunked")
    head.measured = head.framed = False
    head.patient = not random.randint(0, 39)


def _both(random: Random, head: Head) -> None:
    head.put(b"Transfer-Encoding", random.choice(_ENCODINGS))
    head.framed = False


def _upgrade(random: Random, head: Head) -> None:
    head.put(b"Connection", random.choice((b"Upgrade", b"close", b"keep-alive", b"Upgrade, HTTP2-Settings", b"x")))
    head.put(b"Upgrade", random.choice((b"websocket", b"h2c", b"TLS/1.0", b"\xff")))
    if random.getrandbits(1):
        head.pairs += [(b"Sec-WebSocket-Version", b"13"), (b"Sec-WebSocket-Key", b"dGhlIHNhbXBsZSBub25jZQ==")]
    head.framed = False


def _folded(random: Random, head: Head) -> None:
    head.pairs.append((b"X-Folded", b"a\r\n " + random.choice((b"b", b"X-Roles: admin", b""))))
    head.framed = False


def _cut(random: Random, head: Head) -> None:
    """The connection ends within the request: marked by a body that is not there."""
    head.encoded = head.body[: random.randint(0, len(head.body))]
    head.framed = len(head.encoded) == len(head.body)


_CHANGES: list[Callable[[Random, Head], None]] = [
    _one_of(b"OpenStack-API-Version", _VERSIONS, also=True), _one_of(b"OpenStack-API-Version", _VERSIONS),
    _one_of(b"Content-Type", _TYPES, also=True), _one_of(b"Content-Type", _TYPES), _one_of(b"Accept", _ACCEPTS),
    _one_of(b"Idempotency-Key", _KEYS, also=True), _one_of(b"Idempotency-Key", _KEYS),
    _one_of(b"X-Auth-Token", _TOKENS, also=True), _one_of(b"X-Service-Token", _TOKENS),
    _one_of(b"X-OpenStack-Request-ID", _IDS, also=True), _one_of(b"Host", _HOSTS),
    _one_of(b"Expect", [b"100-continue", b"x", b"100-Continue"]),
    _one_of(b"Content-Encoding", [b"gzip", b"br", b"\xff"]),
    _claim, _claim, _look, _odd_name, _again, _many, _method, _protocol, _target, _target, _length, _chunked, _chunked,
    _bad_chunks, _both, _upgrade, _folded, _cut,
]  # fmt: skip


def change(random: Random, head: Head, most: int = 2) -> None:
    """Change up to ``most`` things of the head."""
    for _ in range(random.randint(0, most)):
        random.choice(_CHANGES)(random, head)


def on_wire(head: Head) -> bytes:
    """The request's bytes, in which things of the product still go by their placeholders."""
    pairs = list(head.pairs)
    if head.measured and (head.body or head.method not in (b"GET", b"HEAD")):
        pairs.append((b"Content-Length", b"%d" % len(head.body)))
    lines = b"".join(b"%s: %s\r\n" % pair for pair in pairs)
    first = b" ".join(part for part in (head.method, head.target, head.protocol))
    return first + b"\r\n" + lines + b"\r\n" + (head.body if head.encoded is None else head.encoded)


def is_framed(head: Head) -> bool:
    """Is there to be an answer?"""
    size = len(head.target) + sum(len(name) + len(value) + 4 for name, value in head.pairs)
    return head.framed and len(head.body) <= LARGEST_BODY and size < _LARGEST_HEAD
