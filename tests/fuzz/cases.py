"""One fuzzed request: a good one for an operation, then changed in its values, its bytes and its head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.fuzz import archives, bodies, head, values
from tests.fuzz.head import Head
from tests.fuzz.json_text import written

_PATHS = [
    b"/etc/hostname", b"/tmp", b"/", b"/tmp/hello", b"/nowhere", b"tmp", b".", b"..", b"%2e%2e%2fetc", b"/tmp/../etc",
    b"~", b"%00", b"/tmp%00x", b"%ff%fe", b"%ed%a0%80", b"/" + b"a" * 300, b"/" + b"a/" * 5000, b"%C3%A9",
    b"//tmp//", b"",
    b"+", b"%25s", b"/proc/self/mem", b"-rf", b"%0a", b"/tmp&path=/etc", b"/tmp&x=1", b"/tmp&data=eA==", b"/tmp/.",
]  # fmt: skip
_IDENTS = [b"@running@"] * 10 + [
    b"@stopped@",
    b"@paused@",
    b"@error@",
    b"@name@",
    b"@capsule@",
    b"nothing",
    b"%00",
    b"%ff",
]
_QUERIES = [b""] * 6 + [b"?run=true"] * 4 + [
    b"?run=false", b"?run=maybe", b"?run=true&run=true", b"?x=1", b"?image=busybox", b"?name=ab&cpu=1e999", b"?%00=1",
    b"?run=%ff", b"?memory=%D9%A1", b"?nets=x", b"?template=x", b"?run=1&run=0",
]  # fmt: skip
_LISTS_SINCE, _BASE64_SINCE = 20, 25


@dataclass(frozen=True)
class Case:
    """A request as bytes, and whether an answer is owed to it."""

    label: str
    data: bytes
    framed: bool
    patient: bool
    no_body: bool
    """Has the answer none, as that to HEAD?"""


def _head(random: Random, label: str, method: bytes, target: bytes, minor: int) -> Head:
    token = random.choice([head.MEMBER] * 8 + [head.ADMIN] * 3 + [head.OTHER])
    pairs = [(b"Host", b"127.0.0.1"), (b"X-Auth-Token", token), (b"OpenStack-API-Version", b"container 1.%d" % minor)]
    return Head(label, method, target, pairs=pairs)


def _fill(random: Random, made: Head, body: Any) -> Head:
    """The body into the request, changed on the way."""
    values.change(random, body)
    made.pairs.append((b"Content-Type", b"application/json"))
    made.body, kinds = bodies.spoilt(random, written(body))
    for name, value in kinds.items():
        made.put(name, value)
    return made


def _create(random: Random, minor: int) -> Head:
    made = _head(random, "create", b"POST", b"/v1/containers" + random.choice(_QUERIES), minor)
    body = bodies.container(random)
    if minor < _LISTS_SINCE and "command" in body:
        body["command"] = '"sleep" "1000"'
    return _fill(random, made, body)


def _patch(random: Random, minor: int) -> Head:
    target = b"/v1/containers/" + random.choice(_IDENTS)
    return _fill(random, _head(random, "patch", b"PATCH", target, minor), bodies.changes(random))


def _capsule(random: Random, minor: int) -> Head:
    made = _head(random, "capsule", b"POST", b"/v1/capsules", minor)
    body = bodies.capsule(random)
    if not random.randint(0, 4):  # as a text, with its own mutations within
        values.change(random, body["template"])
        body = {"template": written(body["template"]).decode("utf-8", "replace")}
    return _fill(random, made, body)


def _put(random: Random, minor: int) -> Head:
    path, archive = random.choice(_PATHS[:6] * 3 + _PATHS), archives.archive(random)
    text = archives.as_base64(random, archive) if minor >= _BASE64_SINCE else archive.decode(
        random.choice(("latin-1", "utf-8")), "replace"
    )  # fmt: skip
    target = b"/v1/containers/" + random.choice(_IDENTS) + b"/put_archive"
    body: dict[str, Any] = {"data": text}
    if random.randint(0, 4):
        target += b"?path=" + path
    else:
        body["path"] = path.decode("latin-1")
    return _fill(random, _head(random, "put_archive", b"POST", target, minor), body)


def _get(random: Random, minor: int) -> Head:
    path = random.choice(_PATHS[:4] * 3 + _PATHS)
    target = b"/v1/containers/" + random.choice(_IDENTS) + b"/get_archive?path=" + path
    made = _head(random, "get_archive", b"GET", target, minor)
    return made if random.randint(0, 4) else _fill(random, made, {"path": "/tmp", "data": "x"})


_KINDS: list[Callable[[Random, int], Head]] = [_create] * 6 + [_patch] * 3 + [_capsule] * 5 + [_put] * 4 + [_get] * 2


def case(random: Random) -> Case:
    """Any request. ``random``: what Hypothesis chooses by."""
    minor = random.choice([40] * 10 + [1, 7, 12, 18, 19, 20, 24, 25, 31, 32, 36, 38, 39])
    made = random.choice(_KINDS)(random, minor)
    head.change(random, made)
    return Case(made.label, head.on_wire(made), head.is_framed(made), made.patient, made.method == b"HEAD")
