"""Reads a second, 16 clients on one worker, token check and policy on; list time against rows stored."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import uuid
from contextlib import closing
from typing import Any

from tests.bench.figure import Figure
from tests.support.product import Product

FEW, MANY = 1_000, 100_000


async def measure(product: Product, image: str, quick: bool) -> list[Figure]:
    """The same reads with a thousand and with a hundred thousand containers recorded."""
    await asyncio.to_thread(product.start)
    one = await asyncio.to_thread(_fill, product, FEW)
    seconds = 3.0 if quick else 10.0
    get = _load(product, f"/v1/containers/{one}", 16, seconds)
    few = _load(product, "/v1/containers?limit=100", 16, seconds)
    single = _load(product, "/v1/containers?limit=100", 1, seconds / 2)
    await asyncio.to_thread(_fill, product, MANY - FEW)
    many = _load(product, "/v1/containers?limit=100", 1, seconds / 2)
    await asyncio.to_thread(_empty, product)
    growth = many["median_ms"] / single["median_ms"]
    return [
        Figure(
            "GET one container",
            f"{get['per_second']:.0f} /s (p99 {get['p99_ms']:.0f} ms)",
            "≥ 300 /s",
            get["per_second"] >= 300 and not get["errors"],
        ),
        Figure(
            "GET list of 100 rows",
            f"{few['per_second']:.0f} /s (p99 {few['p99_ms']:.0f} ms)",
            "≥ 100 /s",
            few["per_second"] >= 100 and not few["errors"],
        ),
        Figure(
            f"100 of {MANY:,} rows against 100 of {FEW:,}",
            f"{many['median_ms']:.1f} / {single['median_ms']:.1f} ms = {growth:.2f} ×",
            "≤ 1.5 ×",
            growth <= 1.5,
        ),
    ]


def _load(product: Product, path: str, clients: int, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.bench.load", f"{product.url}{path}", product.admin_token]
    done = subprocess.run([*command, str(clients), str(seconds)], capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _fill(product: Product, rows: int) -> str:
    """Containers of another host, as rows; the uuid of one of them."""
    project = product.query("SELECT project_id FROM local_tokens LIMIT 1")[0][0]
    names = [
        "uuid", "generation", "name", "name_key", "project_id", "user_id",
        "image", "image_driver", "command", "entrypoint", "cpu", "cpu_policy",
        "memory", "disk", "environment", "labels", "restart_policy", "interactive",
        "tty", "auto_remove", "auto_heal", "privileged", "host", "container_id",
        "status", "status_detail", "ports", "addresses", "security_groups", "created_at",
        "updated_at", "started_at",
    ]  # fmt: skip
    made = [
        (
            str(uuid.uuid4()), 3, f"bench-{i}", f"bench-{i}", project, "bench", "registry.example.org/team/app:1.2",
            "docker", '["sleep","600"]', "[]", 0.5, "shared", 256, 0, '{"A":"b","LONGER":"value of some length"}',
            '{"app":"bench","tier":"web"}', '{"Name":"always","MaximumRetryCount":"0"}', 0, 0, 0, 0, 0, "elsewhere",
            "e" * 64, "Running", "Up @1764425000", "[80]",
            '{"11111111-1111-4111-8111-111111111111":[{"addr":"10.0.0.2","version":4,"port":"p","subnet_id":"s",'
            '"preserve_on_delete":false}]}', "[]", "2026-01-02 03:04:05.000006", "2026-01-02 03:04:06.000006",
            "2026-01-02 03:04:06.000000",
        )
        for i in range(rows)
    ]  # fmt: skip
    with closing(sqlite3.connect(product.state.root / "zun.sqlite", timeout=60)) as connection, connection:
        marks = ",".join("?" * len(names))
        connection.executemany(f"INSERT INTO containers ({','.join(names)}) VALUES ({marks})", made)
    return str(made[0][0])


def _empty(product: Product) -> None:
    with closing(sqlite3.connect(product.state.root / "zun.sqlite", timeout=60)) as connection, connection:
        connection.execute("DELETE FROM containers WHERE host = 'elsewhere'")
