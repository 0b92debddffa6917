"""zun-api and zun-compute as processes of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import httpx

from tests.support import forks
from tests.support.plain_http import PLAIN
from tests.support.product import ZUN, Product


@contextlib.contextmanager
def running(name: str, product: Product, before: Sequence[str] = ()) -> Iterator[forks.Process]:
    """A console script of ours on the product's configuration, after ``before``; ends with SIGTERM and exit code 0."""
    command = [*before, str(ZUN.with_name(name)), "--config-file", str(product.state.conf_file)]
    with (product.state.root / f"{name}.log").open("ab") as log:
        process = forks.start(command, stdout=log, stderr=log)
    try:
        yield process
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait(30)


def healthy(product: Product) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{product.url}/healthcheck", verify=PLAIN, timeout=30).status_code == 200
    return False


def agent_up(http: httpx.Client) -> bool:
    services = http.get("/v1/services").json()["services"]
    return any(row["binary"] == "zun-compute" and row["state"] == "up" for row in services)
