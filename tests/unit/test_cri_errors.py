"""What CRI's refusals mean, how a pull is measured, and what the registry's addresses are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from zun.domain.errors import (
    EngineConflict,
    EngineError,
    EngineNotFound,
    EngineUnreachable,
    StartFailed,
)
from zun.runtime.cri.errors import ENGINE, translated
from zun.runtime.cri.facts import engine_facts, moment, network_trouble, newest
from zun.runtime.cri.protocol import message
from zun.runtime.cri.pull_meter import Meter

CODE = grpc.StatusCode


def refusal(code: grpc.StatusCode, details: str = "") -> EngineError:
    error: Any = SimpleNamespace(code=lambda: code, details=lambda: details)
    return translated(error, "unix:///run/x.sock", 5.0)


@pytest.mark.parametrize(
    ("code", "details", "kind"),
    [
        (CODE.UNAVAILABLE, "connection refused", EngineUnreachable),
        (CODE.DEADLINE_EXCEEDED, "", EngineUnreachable),
        (CODE.CANCELLED, "", EngineUnreachable),
        (CODE.UNKNOWN, "server is not initialized yet", EngineUnreachable),
        (CODE.NOT_FOUND, "no such thing", EngineNotFound),
        (CODE.ALREADY_EXISTS, "there", EngineConflict),
        (CODE.FAILED_PRECONDITION, "not now", EngineConflict),
        (CODE.UNKNOWN, "container is in CONTAINER_EXITED state", EngineConflict),
        (CODE.UNKNOWN, 'failed to reserve container name "x"', EngineConflict),
        (CODE.UNKNOWN, "anything else", EngineError),
        (CODE.UNIMPLEMENTED, "unknown method", EngineError),
        (CODE.RESOURCE_EXHAUSTED, "too large", EngineError),
    ],
)
def test_refusals(code: grpc.StatusCode, details: str, kind: type[EngineError]) -> None:
    found = refusal(code, details)
    assert type(found) is kind
    assert found.message.startswith("CRI internal error: ")


def test_silence_names_the_engine_and_the_wait() -> None:
    assert "unix:///run/x.sock did not answer within 5 seconds" in refusal(CODE.DEADLINE_EXCEEDED).message


def test_wrapping_of_the_engines_own_calls_is_left_out() -> None:
    text = "failed: rpc error: code = Unknown desc = rpc error: code = NotFound desc = the reason"
    assert refusal(CODE.UNKNOWN, text).text == "failed: the reason"


def test_errors_name_their_engine_and_docker_where_none_is_named() -> None:
    assert StartFailed("no", engine=ENGINE).message == "CRI internal error: no."
    assert StartFailed("no").message == "Docker internal error: no."


def status(config: str, *, ready: bool = True) -> Any:
    conditions = [{"type": "RuntimeReady", "status": True}]
    conditions += [{"type": "NetworkReady", "status": ready, "message": "cni plugin not initialized"}]
    return message("StatusResponse")(status={"conditions": conditions}, info={"config": config})


def test_facts_of_an_engine() -> None:
    config = (
        '{"containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": {"options": {"SystemdCgroup": true}},'
        ' "kata": {"options": null}}}, "cni": {"confDir": "/c"}, "registry": {"configPath": "/r"}}'
    )
    version = message("VersionResponse")(runtime_name="containerd", runtime_version="v1.7.2")
    found = engine_facts(version, status(config, ready=False))
    assert (found.name, found.version, found.handlers) == ("containerd", "1.7.2", ("kata", "runc"))
    assert (found.default_handler, found.systemd) == ("runc", frozenset({"runc"}))
    assert (found.network_config, found.registry_config) == ("/c", "/r")
    assert network_trouble(status(config), found) == ""
    assert "cni plugin not initialized" in network_trouble(status(config, ready=False), found)


@pytest.mark.parametrize("config", ["", "no json", "[]", '{"containerd": null}'])
def test_engine_that_tells_little(config: str) -> None:
    version = message("VersionResponse")(runtime_name="other", runtime_version="1")
    answer = status(config)
    answer.runtime_handlers.add(name="crun")
    answer.runtime_handlers.add(name="")
    found = engine_facts(version, answer)
    assert (found.handlers, found.default_handler, found.systemd) == (("crun",), "runc", frozenset())


def test_moments() -> None:
    assert moment(0) is None
    found = moment(1_767_322_800_123_456_789)
    assert found is not None
    assert found.isoformat() == "2026-01-02T03:00:00.123456"


def test_newest_attempt_of_each_member() -> None:
    def member(uuid: str, attempt: int, created_at: int = 0) -> Any:
        made = message("Container")(id=f"{uuid}{attempt}", created_at=created_at, metadata={"attempt": attempt})
        made.labels["org.openstack.zun.uuid"] = uuid
        return made

    rows = [member("a", 1), member("b", 0), member("a", 3), member("a", 2)]
    assert {row.id for row in newest(rows)} == {"a3", "b0"}


def download(ref: str, offset: int, total: int, touched: int) -> Any:
    kind = message("containerd.services.content.v1.Status")
    return kind(ref=ref, offset=offset, total=total, updated_at={"seconds": touched})


def test_downloads_are_summed_and_end_in_unpacking() -> None:
    meter = Meter()
    assert meter.take([]) is None
    found = meter.take([download("a", 10, 100, 1), download("b", 0, 50, 1)])
    assert found is not None
    assert (found.done, found.total, found.phase) == (10, 150, "Downloading")
    assert meter.take([download("a", 10, 100, 1), download("b", 0, 50, 1)]) is None
    found = meter.take([download("b", 20, 50, 2)])
    assert found is not None
    assert (found.done, found.total) == (120, 150)
    assert not meter.unpacking
    found = meter.take([])
    assert found is not None
    assert (found.done, found.total, found.phase) == (150, 150, "Extracting")
    assert meter.unpacking
    assert meter.still() == found


def test_what_another_pull_has_left_is_no_download() -> None:
    meter = Meter()
    left = download("left", 7, 100, 1)
    assert meter.take([left]) is None
    found = meter.take([left, download("a", 5, 10, 2)])
    assert found is not None
    assert (found.done, found.total) == (5, 10)
    meter.take([left])
    assert meter.unpacking
    resumed = meter.take([download("left", 8, 100, 3)])
    assert resumed is not None
    assert resumed.phase == "Downloading"
