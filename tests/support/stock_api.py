"""zunclient's Python interface, as Heat and Horizon use it, in the stock client's own virtual environment."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.stock_client import StockClient

_CHILD = Path(__file__).with_name("stock_api_child.py")


class StockError(Exception):
    """What zunclient raised: ``kind`` is its class, ``status`` the HTTP status if it has one."""

    def __init__(self, kind: str, status: int | None, text: str) -> None:
        super().__init__(f"{kind} {status}: {text}")
        self.kind, self.status, self.text = kind, status, text


class StockApi:
    """One process for many calls: ``with StockApi(client) as api: api.call("1.12", "containers.run", image=…)``."""

    def __init__(self, client: StockClient) -> None:
        self._process = subprocess.Popen(
            [str(client.program.with_name("python")), "-W", "ignore", str(_CHILD)],
            env=client.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> StockApi:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)

    def call(self, version: str, method: str, *args: Any, **kwargs: Any) -> Any:
        """``containers.run`` at microversion 1.12: what the method returned, resources as dicts. Raises StockError."""
        assert self._process.stdin
        assert self._process.stdout
        request = {"version": version, "method": method, "args": args, "kwargs": kwargs}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"zunclient's process ended at {method}"
        answer = json.loads(line)
        if "error" in answer:
            error = answer["error"]
            raise StockError(error["class"], error["status"], error["text"])
        return answer["result"]
