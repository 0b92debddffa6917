"""``transport_url`` for RabbitMQ: the original's forms, and one clear sentence for what is wrong."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.api import configure
from tests.support.certificates import make_certificates
from zun import parts
from zun.bus.rabbit_names import names_of
from zun.bus.rabbit_pause import Pause
from zun.bus.rabbit_url import Broker, RabbitOptions, parse
from zun.conf import ConfigError
from zun.domain.errors import InvalidValue

PLAIN = RabbitOptions()


@pytest.mark.parametrize(
    ("url", "brokers", "vhost"),
    [
        ("rabbit://u:p@h", [Broker("h", 5672, "u", "p")], "/"),
        ("amqp://u:p@h:1/", [Broker("h", 1, "u", "p")], "/"),
        ("rabbit://u:p@h//", [Broker("h", 5672, "u", "p")], "/"),
        ("rabbit://u:p@h/%2F", [Broker("h", 5672, "u", "p")], "/"),
        ("rabbit://u:p@h/a%20b", [Broker("h", 5672, "u", "p")], "a b"),
        ("rabbit://", [Broker("localhost", 5672, "guest", "guest")], "/"),
        ("rabbit://u:p@[::1]:7,u:q@h2/v", [Broker("::1", 7, "u", "p"), Broker("h2", 5672, "u", "q")], "v"),
        ("rabbit://u:p@h1:1,h2:2/v", [Broker("h1", 1, "u", "p"), Broker("h2", 2, "u", "p")], "v"),
        ("rabbit://u%40d:p%2C%2F%3A%40%25@h/v", [Broker("h", 5672, "u@d", "p,/:@%")], "v"),
        ("amqps://u:p@h/v", [Broker("h", 5671, "u", "p")], "v"),
    ],
)
def test_forms_of_the_url(url: str, brokers: list[Broker], vhost: str) -> None:
    target = parse(url, PLAIN)
    assert list(target.brokers) == brokers
    assert target.vhost == vhost
    assert (target.tls is not None) == url.startswith("amqps")


def test_options_in_the_query_come_first(tmp_path: Path) -> None:
    made = make_certificates(tmp_path, "someone")
    query = f"ssl=1&ssl_ca_file={made.ca}&heartbeat_timeout_threshold=9&rabbit_retry_interval=0.5&rabbit_quorum_queue=1"
    target = parse(f"rabbit://u:p@h/?{query}", replace(PLAIN, heartbeat_timeout_threshold=5, rabbit_interval_max=7.0))
    assert target.tls is not None
    assert target.tls.check_hostname
    assert target.options.heartbeat_timeout_threshold == 9
    assert target.options.rabbit_retry_interval == 0.5
    assert target.options.rabbit_interval_max == 7
    assert target.ignored == ("rabbit_quorum_queue",)
    client = f"ssl_cert_file={made.certificate}&ssl_key_file={made.key}"
    assert parse(f"amqps://h/?{client}", PLAIN).tls is not None
    assert parse("rabbit://h/?ssl=0", replace(PLAIN, ssl=True)).tls is None


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("rabbit://u:se/cret@h/", "%2F"),
        ("rabbit://u:se#cret@h/", "%23"),
        ("rabbit://u:secret@h:port/", "percent-encoded"),
        ("rabbit://u:secret@h:99999/", "percent-encoded"),
        ("rabbit://u:se,cret@h/", "percent-encoded"),
        ("rabbit://u:secret@[::1/", "not a URL"),
        ("rabbit://u:secret@h/?ssl=perhaps", "ssl=perhaps"),
        ("rabbit://u:secret@h/?heartbeat_timeout_threshold=-1", "not a positive number"),
        ("rabbit://u:secret@h/?rabbit_retry_interval=nan", "not a positive number"),
        ("amqps://u:secret@h/?ssl_ca_file=/nowhere", "ssl_ca_file /nowhere cannot be used: no such file"),
        ("amqps://u:secret@h/?ssl_cert_file=/nowhere", "ssl_cert_file /nowhere with ssl_key_file (none)"),
    ],
)
async def test_what_is_wrong_is_one_sentence_without_the_password(tmp_path: Path, url: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as raised:
        async with parts.build(configure(tmp_path, {"transport_url": url})):
            pass
    text = str(raised.value)
    assert text.startswith("[DEFAULT]/transport_url cannot be used: ")
    assert sentence in text
    assert "\n" not in text
    assert "cret" not in text


async def test_an_unknown_scheme_does_not_repeat_the_password(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pigeon://…' is not known") as raised:
        async with parts.build(configure(tmp_path, {"transport_url": "pigeon://u:secret@h"})):
            pass
    assert "secret" not in str(raised.value)


async def test_a_missing_library_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("zun.bus.rabbit")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aio_pika", None)
    with pytest.raises(ConfigError, match=r"aio-pika is not installed; install zun-ng\[rabbitmq\]$"):
        async with parts.build(configure(tmp_path, {"transport_url": "rabbit://h"})):
            pass


def test_names_of_queues() -> None:
    names = names_of("zun-compute", "node-1.example")
    assert names.doorbell == "zun-compute.node-1.example.doorbell"
    assert names.calls == "zun-compute.node-1.example.calls"
    for host in ("", "a b", "a/b", "#", "*", "x" * 230):
        with pytest.raises(InvalidValue):
            names_of("zun-compute", host)


def test_pauses_grow_to_a_bound_and_differ() -> None:
    pause = Pause(1, 30)
    seen = [pause.next() for _ in range(10)]
    assert all(0.5 * most <= got <= most for got, most in zip(seen, (1, 2, 4, 8, 16, 30, 30, 30, 30, 30), strict=True))
    assert len(set(seen)) == 10
    pause.reset()
    assert pause.next() <= 1
