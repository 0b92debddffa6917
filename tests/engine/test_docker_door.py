"""Sessions past the relay, where an operator asks for it: the proxy dials Docker's own port, with certificates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from tests.support.cloud import Cloud
from tests.support.docker_tls import docker_tls
from tests.support.product import Product
from tests.support.terminal import terminal
from tests.support.wait import wait_until


def exec_url(cloud: Cloud, uuid: str, command: str = "sh") -> str:
    asked = {"command": command, "interactive": "True", "run": "False"}
    return str(cloud.post(f"/containers/{uuid}/execute", 200, params=asked).json()["proxy_url"])


async def test_exec_and_attach_over_dockers_own_port(
    make_product: Callable[[], Product], busybox: str, tmp_path: Path
) -> None:
    product, loop = make_product(), asyncio.get_running_loop()
    async with docker_tls(tmp_path) as door:
        address = door.url.removeprefix("tcp://")
        product.conf(docker=door.options, relay={"docker_address": address}, websocket_proxy={"docker_tcp": "true"})
        await asyncio.to_thread(product.start)
        cloud = Cloud(product, busybox)
        (row,) = product.query("SELECT relay FROM zun_services")
        assert row["relay"] == f"docker+tls://{address}"
        shell = {"command": ["sh"], "interactive": True, "tty": True, "image_pull_policy": "ifnotpresent"}
        uuid = (await asyncio.to_thread(lambda: cloud.running(**shell)))["uuid"]
        await asyncio.to_thread(_exec, cloud, uuid)
        await asyncio.to_thread(_attach, cloud, uuid)
        await asyncio.to_thread(_lost, cloud, uuid, lambda: loop.call_soon_threadsafe(door.cut))
        product.conf(websocket_proxy={"docker_tcp": "false"})
        await asyncio.to_thread(product.restart)
        await asyncio.to_thread(_off, cloud, uuid)
        await asyncio.to_thread(product.clear)


def _exec(cloud: Cloud, uuid: str) -> None:
    with terminal(exec_url(cloud, uuid)) as client:
        assert client.run("echo $((6*7))") == "42"
        client.type("exit 6\r")
        assert client.end() == (1000, "The command has ended with exit code 6.")
    data = bytes(range(256)) * 256
    with terminal(
        exec_url(cloud, uuid, f"sh -c 'stty raw -echo; echo ready; head -c {len(data)} | cat; exit 5'")
    ) as client:
        client.until("ready\n")
        before = len(client.text)
        client.type(data)
        assert client.end(60) == (1000, "The command has ended with exit code 5.")
        assert client.text[before:] == data


def _attach(cloud: Cloud, uuid: str) -> None:
    with terminal(str(cloud.get(f"/containers/{uuid}/attach"))) as client:
        assert client.run("kept=$((6*7)); echo $kept") == "42"
        size = {"h": "21", "w": "77"}
        assert cloud.post(f"/containers/{uuid}/resize", 200, params=size).json() is None
        wait_until(lambda: client.run("stty size") == "21 77", 60, "the size holds")
        client.type("\x10\x11")
        assert client.end() == (1000, "Detached; the container goes on.")
    with terminal(str(cloud.get(f"/containers/{uuid}/attach"))) as client:
        assert client.run("echo $kept") == "42"


def _lost(cloud: Cloud, uuid: str, cut: Callable[[], object]) -> None:
    with terminal(exec_url(cloud, uuid)) as client:
        assert client.run("echo $((6*7))") == "42"
        cut()
        assert client.end()[0] == 1011


def _off(cloud: Cloud, uuid: str) -> None:
    with terminal(exec_url(cloud, uuid)) as client:
        assert client.end() == (1011, "The node of the container has no relay.")
