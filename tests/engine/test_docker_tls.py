"""The engine over TCP with TLS: our certificate is shown, the engine's is checked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.docker_tls import Endpoint, docker_tls
from tests.support.engine import Engine
from tests.support.runtimes import conf_with
from zun.domain.errors import EngineError, EngineUnreachable
from zun.runtime.docker import DockerRuntime


@pytest.fixture
async def endpoint(tmp_path: Path, engine: Engine) -> AsyncIterator[Endpoint]:
    assert engine.ping()
    async with docker_tls(tmp_path) as made:
        yield made


async def test_both_certificates_are_right(endpoint: Endpoint) -> None:
    runtime = DockerRuntime(
        conf_with(
            api_url=endpoint.url,
            ca_file=str(endpoint.server.certificate),
            cert_file=str(endpoint.client.certificate),
            key_file=str(endpoint.client.key),
        )
    )
    assert (await runtime.info()).cpus > 0
    await runtime.close()


async def test_unknown_engine_is_not_believed(endpoint: Endpoint) -> None:
    runtime = DockerRuntime(
        conf_with(
            api_url=endpoint.url,
            ca_file=str(endpoint.client.certificate),
            cert_file=str(endpoint.client.certificate),
            key_file=str(endpoint.client.key),
        )
    )
    with pytest.raises(EngineUnreachable, match="certificate verify failed"):
        await runtime.connect()
    await runtime.close()


async def test_missing_file_is_told(tmp_path: Path) -> None:
    runtime = DockerRuntime(conf_with(api_url="tcp://127.0.0.1:1", ca_file=str(tmp_path / "none.pem")))
    with pytest.raises(EngineError, match="TLS files of tcp://127"):
        await runtime.connect()
    await runtime.close()
