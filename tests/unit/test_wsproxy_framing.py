"""Sub-protocols: which is chosen, and what frames mean in each."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.wsproxy import framing
from zun.wsproxy.framing import BASE64, BINARY, CONSOLE, BadFrame, Eof, Event, Pause, Resize


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["binary", "base64"], BINARY),
        (["base64", "binary"], BINARY),
        (["binary"], BINARY),
        (["base64"], BASE64),
        ([CONSOLE], CONSOLE),
        (["v2", CONSOLE, "base64"], CONSOLE),
        ([CONSOLE, "binary"], BINARY),
        ([], None),
    ],
)
def test_chosen(offered: list[str], chosen: str | None) -> None:
    assert framing.choose(offered) == chosen


@pytest.mark.parametrize("offered", [["v1"], ["base64", "v1"], ["Binary"]])
def test_none_is_known(offered: list[str]) -> None:
    with pytest.raises(LookupError):
        framing.choose(offered)


def events(subprotocol: str | None, *messages: list[str | bytes]) -> list[Event]:
    found, client = list[Event](), framing.of(subprotocol)
    for message in messages:
        for piece in message:
            found += client.part(piece)
        found += client.end()
    return found


@pytest.mark.parametrize("subprotocol", [BINARY, None])
def test_binary(subprotocol: str | None) -> None:
    assert events(subprotocol, [b"a", b"\xff"], ["é"], [""], [b"", b"b"], [b""]) == [
        b"a",
        b"\xff",
        "é".encode(),
        b"b",
        Eof(),
    ]
    assert framing.of(subprotocol).output(b"\xff") == b"\xff"
    assert framing.of(subprotocol).exit(0) is None


@given(st.lists(st.binary(max_size=60)), st.integers(1, 7))
def test_base64_in_any_pieces(messages: list[bytes], step: int) -> None:
    client, found = framing.of(BASE64), b""
    for message in messages:
        text = base64.b64encode(message).decode()
        parts = [text[at : at + step] for at in range(0, len(text), step)]
        got = [event for part in parts for event in client.part(part)]
        found += b"".join(piece for piece in got if isinstance(piece, bytes))
        assert list(client.end()) == ([] if message else [Eof()])
    assert found == b"".join(messages)
    assert base64.b64decode(framing.of(BASE64).output(found)) == found


@pytest.mark.parametrize("text", ["%%%%", "abc", "YQ==YQ=", "Y Q="])
def test_what_is_no_base64(text: str) -> None:
    with pytest.raises(BadFrame, match="not base64"):
        events(BASE64, [text])


def test_console() -> None:
    control = '{"resize": {"height": 24, "width": 80}}'
    assert events(CONSOLE, [b"ls\r"], [control[:9], control[9:]], ['{"eof": true}'], [b""], ['{"pause": true}']) == [
        b"ls\r", Resize(24, 80), Eof(), Pause(True),
    ]  # fmt: skip
    assert events(CONSOLE, ['{"pause": false}']) == [Pause(False)]
    assert framing.of(CONSOLE).begun(True) == '{"open":{"tty":true}}'
    assert framing.of(CONSOLE).exit(3) == '{"exit":3}'
    assert framing.of(CONSOLE).exit(None) == '{"exit":null}'


@pytest.mark.parametrize(
    "text",
    [
        "", "ls\r", "[]", '{"pause": 1}', "null", '{"eof": false}',
        '{"resize": {}}', '{"resize": {"height": 0, "width": 1}}',
        '{"resize": {"height": true, "width": 1}}', '{"resize": {"height": "24", "width": 1}}',
        '{"resize": {"height": 1, "width": 65536}}', '{"resize": {"height": 1, "width": 1}, "eof": true}', "[" * 2000,
    ],
)  # fmt: skip
def test_what_is_no_control_message(text: str) -> None:
    with pytest.raises(BadFrame):
        events(CONSOLE, [text])
