"""Values that do not belong where they are put, and trees of JSON changed in a few places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from tests.fuzz.json_text import Again, Literal

_DEEP = (60, 70, 900, 20_000)
_LONG = (255, 256, 257, 4_096, 40_000, 140_000)
_NUMBERS = [
    b"NaN", b"Infinity", b"-Infinity", b"-0", b"-0.0", b"0.0", b"1e999", b"-1e999", b"1e308", b"5e-324", b"1E2", b"1.0",
    b"0x10", b"01", b"+1", b"1.", b".5", b"1_000", b"9223372036854775807", b"9223372036854775808",
    b"18446744073709551616", b"2147483647", b"2147483648", b"-2147483649", b"-1", b"0", b"1", b"0.1", b"1e-7",
    b"9007199254740993", b"1" + b"0" * 400, b"9" * 5000, b"0." + b"1" * 3000, "١".encode(), b"1e", b"--1",
]  # fmt: skip
_WORDS = [b"True", b"None", b"undefined", b"true", b"false", b"null", b"nan", b"'x'", b"x", b"", b"//", b"/* */ 1"]
_TEXTS = [
    b'"\\u0000"', b'"a\\u0000b"', b'"\x00"', b'"\x01"', b'"\\ud800"', b'"\\udfff\\ud800"', b'"\xed\xa0\x80"', b'"\xff"',
    b'"\xc0\xaf"', b'"\xf4\x90\x80\x80"', b'"\\x41"', b'"\\u12"', b'"', b'"\\', b'"a\nb"', '"\u202eabc"'.encode(),
    '"e\u0301\u0300"'.encode(), '"\ufeff"'.encode(), '"\U0001f600"'.encode(), '"\uffff"'.encode(), b'"%s%d%n{0}{}"',
    b'"${x}`id`"', b'"../../etc/passwd"', b'"/"', b'"."', b'" "', b'""', b'"None"', b'"true"', b'"1"', b'"-0"',
    b'"1e3"', '"１２"'.encode(), '"٣"'.encode(), '"½"'.encode(), b'"0.1.2"', b'"Infinity"', b'"nan"', b'"a,b"',
    b'"a=b"',
    b'"x\\n"', b'"x\\r\\ny: z"', b'"00000000-0000-0000-0000-000000000000"', b'"127.0.0.1"', b'"::1"', b'"fe80::1%eth0"',
    b'"999.1.1.1"', b'"<script>"', b'"\' or 1=1 --"',
]  # fmt: skip
_SHAPES = [b"[]", b"{}", b"[[]]", b"[null]", b"[{}]", b'{"": null}', b'{"a": [1, {"b": 2}]}', b'[""]', b"[1, 2, 3]"]
LITERALS = [Literal(text) for text in (*_NUMBERS, *_WORDS, *_TEXTS, *_SHAPES)]


def _large(random: Random) -> Literal:
    kind = random.choice(("text", "wide", "list", "object", "deep", "deep object"))
    if kind.startswith("deep"):
        depth = random.choice(_DEEP)
        opened, closed = (b"[", b"]") if kind == "deep" else (b'{"a":', b"}")
        return Literal(opened * depth + b"1" + closed * depth)
    size = random.choice(_LONG)
    if kind == "text":
        return Literal(b'"' + b"x" * size + b'"')
    if kind == "wide":
        return Literal(b'"' + "é\U0001f600".encode() * (size // 2) + b'"')
    many = size // 40
    if kind == "list":
        return Literal(b"[" + b", ".join([b'"x"'] * many) + b"]")
    return Literal(b"{" + b", ".join(b'"k%d": "v"' % number for number in range(many)) + b"}")


def hostile(random: Random) -> Any:
    """Any value; one in twelve is large."""
    kind = random.randint(0, 11)
    if kind == 0:
        return _large(random)
    if kind > 1:
        return random.choice(LITERALS)
    number = random.randint(-(2**70), 2**70)
    return random.choice([number, number % 1000, Literal(str(number / 7919).encode()), chr(number % 0xD800) * 3])


Place = tuple[Any, Any]
"""A container of the tree, and the key or position within it."""


def _places(tree: Any) -> Iterator[Place]:
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(pairs):
        yield tree, key
        yield from _places(value)


def _replace(random: Random, place: Place) -> None:
    place[0][place[1]] = hostile(random)


def _remove(random: Random, place: Place) -> None:
    del place[0][place[1]]


def _repeat(random: Random, place: Place) -> None:
    within, key = place
    if isinstance(within, list):
        within.insert(key, within[key])
    else:
        within[Again(key.name if isinstance(key, Again) else key, len(within))] = hostile(random)


def _rename(random: Random, place: Place) -> None:
    within, key = place
    if isinstance(within, list):
        _replace(random, place)
    else:
        within[_name(random)] = within.pop(key)


def _add(random: Random, place: Place) -> None:
    if isinstance(place[0], list):
        place[0].append(hostile(random))
    else:
        place[0][_name(random)] = hostile(random)


def _wrap(random: Random, place: Place) -> None:
    within, key = place
    value = within[key]
    many = [value] * (2 if isinstance(value, dict | list) else 70)
    within[key] = random.choice([[value], {"a": value}, many])


def _retype(random: Random, place: Place) -> None:
    """A number as a text, a text as a number, true as 1."""
    within, key = place
    value = within[key]
    if isinstance(value, bool):
        within[key] = random.choice([int(value), str(value), str(value).lower(), float(value), None])
    elif isinstance(value, int | float):
        within[key] = random.choice([str(value), value == 1, -value, Literal(b"%d.0" % value), f" {value} "])
    else:
        within[key] = random.choice([True, 1, 0, 1.5, None, [], {}])


def _name(random: Random) -> Any:
    names = [text for text in LITERALS if text.startswith(b'"')]
    known = ["name", "image", "cpu", "host", "uuid", "id", "__class__", "extra", "spec", "status", "project_id"]
    chosen: Any = random.choice([*names, *known])
    return chosen


_CHANGES: list[Callable[[Random, Place], None]] = [
    _replace, _replace, _replace, _remove, _repeat, _rename, _add, _wrap, _retype, _retype,
]  # fmt: skip


def change(random: Random, tree: dict[str, Any], most: int = 3) -> None:
    """Change up to ``most`` places of ``tree``."""
    for _ in range(random.randint(0, most)):
        places = list(_places(tree))
        if places:
            random.choice(_CHANGES)(random, places[random.randint(0, len(places) - 1)])
