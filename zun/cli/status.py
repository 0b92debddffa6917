"""`zun status`: what runs, as the product itself tells it over its API."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import typer

from zun.cli.options import load_conf, table
from zun.cli.problem import Problem
from zun.cli.state import StateDir
from zun.cli.up import endpoint

_TIMEOUT = 5.0  # seconds


def show(state_dir: Path) -> None:
    """Prints the state. Raises Problem when the product is not healthy."""
    state = StateDir(state_dir)
    conf = load_conf(state)
    url = endpoint(conf, state)
    pid = state.running_pid()
    logged = state.log_file.exists()  # `make up` writes it; `zun up` by hand logs to its terminal
    if pid is None:
        last = f" Last log: {state.log_file}" if logged else ""
        raise Problem(f"Zun does not run from {state.root}; `make up` or `zun up` starts it.{last}")
    typer.echo(f"zun runs: process {pid}, API {url}" + (f", log {state.log_file}" if logged else ""))
    _get(url.removesuffix("/v1") + "/healthcheck", None)
    token = state.read_admin_token()
    services = _get(f"{url}/services", token)["services"]
    hosts = _get(f"{url}/hosts", token)["hosts"]
    counts = {host["hostname"]: host for host in hosts}
    table(
        ["service", "host", "state", "containers", "memory used", "disk used"],
        [_row(service, counts.get(service["host"], {})) for service in services],
    )


def _row(service: dict[str, Any], host: dict[str, Any]) -> list[str]:
    state = service["state"] + (" (disabled)" if service.get("disabled") else "")
    return [
        service["binary"],
        service["host"],
        state,
        str(host.get("total_containers", "")),
        f"{host.get('mem_used')}/{host.get('mem_total')} MiB" if host else "",
        f"{host.get('disk_used')}/{host.get('disk_total')} GiB" if host else "",
    ]


def _get(url: str, token: str | None) -> Any:
    headers = {"OpenStack-API-Version": "container 1.40", **({"X-Auth-Token": token} if token else {})}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT) as answer:  # noqa: S310
            body = answer.read()
    except urllib.error.HTTPError as error:
        raise Problem(f"{url} answers {error.code} {error.reason}.") from error
    except OSError as error:
        raise Problem(f"{url} does not answer: {getattr(error, 'reason', error)}.") from error
    return json.loads(body) if body[:1] in (b"{", b"[") else body.decode()
