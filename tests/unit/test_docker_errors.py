"""What refusals of the engine and of registries mean."""

from __future__ import annotations

import pytest

from zun.domain import errors
from zun.runtime.docker_client import negotiate
from zun.runtime.docker_errors import pull_failure, refusal, start_refusal


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (404, "No such container: x", errors.EngineNotFound),
        (409, "anything", errors.EngineConflict),
        (500, "Container x is not running", errors.EngineConflict),
        (500, "Container x is not paused", errors.EngineConflict),
        (500, "Container x is paused, unpause the container before exec", errors.EngineConflict),
        (403, "error while removing network: network n has active endpoints", errors.EngineConflict),
        (400, "client version 1.47 is too new. Maximum supported API version is 1.41", errors.EngineUnreachable),
        (400, "invalid", errors.EngineError),
        (500, "failed to allocate gateway (10.0.0.1): IpamDriver.RequestAddress: oops", errors.PluginFailed),
        (404, "NetworkDriver.Join: 404 Not Found", errors.PluginFailed),
        (500, "boom", errors.EngineError),
    ],
)
def test_refusals(status: int, text: str, kind: type[errors.EngineError]) -> None:
    found = refusal(status, text)
    assert type(found) is kind
    assert found.text == text


def test_foreign_text_is_no_format() -> None:
    assert "100%d {0} %2F" in refusal(500, "100%d {0} %2F").message
    assert refusal(500, " ").text == "HTTP status 500"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.EngineNotFound("No such container: x"), errors.EngineNotFound),
        (errors.PluginFailed("NetworkDriver.Join: EOF"), errors.PluginFailed),
        (errors.EngineNotFound("network n not found"), errors.StartFailed),
        (errors.EngineConflict("paused"), errors.EngineConflict),
        (errors.EngineUnreachable("gone"), errors.EngineUnreachable),
        (errors.EngineError("OCI runtime create failed"), errors.StartFailed),
    ],
)
def test_refused_start(error: errors.EngineError, kind: type[errors.EngineError]) -> None:
    assert type(start_refusal(error)) is kind


@pytest.mark.parametrize(
    ("status", "text", "words"),
    [
        (404, "manifest for a/b:1 not found: manifest unknown: manifest unknown", "was not found"),
        (404, "pull access denied for x, repository does not exist or may require 'docker login'", "was refused"),
        (500, 'Head "http://r/v2/": no basic auth credentials', "was refused"),
        (500, "Get https://r/v2/: unauthorized: incorrect username or password", "was refused"),
        (400, "invalid reference format: repository name must be lowercase", "is not a valid reference"),
        (500, 'Get "https://r/v2/": http: server gave HTTP response to HTTPS client', "cannot be pulled"),
        (0, "no matching manifest for linux/amd64 in the manifest list entries", "was not found"),
        (0, "failed to register layer: write /x: no space left on device", "cannot be pulled"),
        (418, "something new", "cannot be pulled"),
    ],
)
def test_pull_failures_without_a_retry(status: int, text: str, words: str) -> None:
    found = pull_failure("r/a:1", status, text)
    assert type(found) is errors.ImageFailed
    assert found.message == f"Image r/a:1 {found.message.partition('r/a:1 ')[2]}"
    assert words in found.message
    assert text in found.message
    assert not found.retryable


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (500, 'Get "http://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: connect: connection refused'),
        (500, 'Get "https://r/v2/": dial tcp: lookup r on 1.1.1.1:53: no such host'),
        (500, "net/http: request canceled (Client.Timeout exceeded while awaiting headers)"),
        (0, "unexpected EOF"),
        (0, "read tcp: connection reset by peer"),
        (429, "toomanyrequests: You have reached your pull rate limit"),
        (500, "received unexpected HTTP status: 502 Bad Gateway"),
        (0, "something new"),
    ],
)
def test_pull_failures_with_a_retry(status: int, text: str) -> None:
    found = pull_failure("r/a:1", status, text)
    assert type(found) is errors.ImagePullFailed
    assert found.message == f"Error on pulling image: r/a:1: {text}"


@pytest.mark.parametrize(
    ("wanted", "engine", "oldest", "expected"),
    [
        ("auto", "1.41", "1.12", (1, 41)),
        ("auto", "1.52", "1.44", (1, 47)),
        ("1.40", "1.41", "1.12", (1, 40)),
        ("v1.41", "1.41", "", (1, 41)),
    ],
)
def test_negotiation(wanted: str, engine: str, oldest: str, expected: tuple[int, int]) -> None:
    assert negotiate(wanted, engine, oldest) == expected


@pytest.mark.parametrize(
    ("wanted", "engine", "oldest"), [("auto", "1.30", "1.12"), ("1.44", "1.41", "1.12"), ("auto", "1.60", "1.50")]
)
def test_nothing_in_common(wanted: str, engine: str, oldest: str) -> None:
    with pytest.raises(errors.EngineError, match="no common API version"):
        negotiate(wanted, engine, oldest)
