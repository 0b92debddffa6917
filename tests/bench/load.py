"""A small HTTP/1.1 load generator: N keep-alive clients, fixed time. Run as its own process, so that it does not share
the server's core.  python -m tests.bench.load URL TOKEN CLIENTS SECONDS  -> prints JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from urllib.parse import urlsplit


async def client(host: str, port: int, request: bytes, end: float, times: list[float], errors: list[str]) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    while time.perf_counter() < end:
        start = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        status = head.split(b" ", 2)[1]
        length = 0
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        await reader.readexactly(length)
        if status != b"200":
            errors.append(status.decode())
        times.append(time.perf_counter() - start)
    writer.close()


async def main(url: str, token: str, clients: int, seconds: float) -> None:
    parts = urlsplit(url)
    assert parts.hostname
    assert parts.port
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    request = (
        f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nX-Auth-Token: {token}\r\nAccept: application/json\r\n"
        "OpenStack-API-Version: container 1.40\r\n\r\n"
    ).encode()
    times: list[float] = []
    errors: list[str] = []
    begin = time.perf_counter()
    await asyncio.gather(
        *(client(parts.hostname, parts.port, request, begin + seconds, times, errors) for _ in range(clients))
    )
    took = time.perf_counter() - begin
    times.sort()
    print(
        json.dumps(
            {
                "per_second": len(times) / took,
                "median_ms": times[len(times) // 2] * 1000,
                "p99_ms": times[int(len(times) * 0.99)] * 1000,
                "errors": len(errors),
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
