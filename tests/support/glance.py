"""The Glance driver on the testbed's Glance, through a proxy that counts downloads and can break them."""

from __future__ import annotations

import asyncio
import io
import re
import secrets
import threading
from pathlib import Path
from typing import Any

from tests.support.engine import Engine
from tests.support.runtimes import DockerBench
from tests.support.testbed import AUTH_URL, FOLDER, HOST, PASSWORD, PORTS, REGION, Account, Testbed
from zun.conf import load
from zun.domain.caller import Caller
from zun.domain.clock import SystemClock
from zun.image.glance import GlanceImages, engine_name
from zun.image.glance_store import GlanceStore
from zun.openstack.cloud import OpenStack

_DOWNLOAD = re.compile(rb"^GET /v2/images/([0-9a-f-]{36})/file ")
_UPLOAD = re.compile(rb"^PUT /v2/images/[0-9a-f-]{36}/file ")


class GlanceProxy:
    """TCP before Glance. ``mode``: ``pass``, ``refuse``, ``hang``; transfers can be cut or stalled on their way."""

    def __init__(self) -> None:
        self.mode = "pass"
        self.downloads: list[str] = []
        self.cut_downloads = 0
        """That many downloads break off in the middle."""
        self.cut_uploads = 0
        self.mode_uploads = "pass"
        """``refuse``: connections with an upload are closed."""
        self.stall = False
        """Downloads stand still after their first bytes."""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        return f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self.mode != "refuse":
                await self._pass(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            return
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(HOST, PORTS["Glance"])
        ways = [
            asyncio.create_task(self._requests(reader, up_writer)),
            asyncio.create_task(self._answers(up_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            up_writer.close()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left: int | None = None
        while data := await reader.read(65536):
            if found := _DOWNLOAD.match(data):
                self.downloads.append(found[1].decode())
            if _UPLOAD.match(data) and self.mode_uploads == "refuse":
                return
            if _UPLOAD.match(data) and self.cut_uploads:
                self.cut_uploads -= 1
                left = 300_000
            if self.mode == "refuse":
                return
            if self.mode == "hang":
                await asyncio.Event().wait()
            writer.write(data)
            await writer.drain()
            if left is not None and (left := left - len(data)) < 0:
                return

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passed = downloads = 0
        while data := await reader.read(65536):
            if len(self.downloads) != downloads:
                downloads, passed = len(self.downloads), 0
            passed += len(data)
            writer.write(data)
            await writer.drain()
            if self.stall and passed > 65536:
                await asyncio.Event().wait()
            if self.cut_downloads and passed > 200_000:
                self.cut_downloads -= 1
                return


def save(engine: Engine, reference: str) -> bytes:
    """What ``docker save`` writes."""
    answer = engine._http.get(f"/images/{reference}/get")
    answer.raise_for_status()
    return answer.content


class GlanceBench:
    """The driver and what a test needs beside it; images made here go with ``close``."""

    def __init__(self, testbed: Testbed, engine: Engine, busybox: str, folder: Path) -> None:
        self.testbed, self.engine, self.busybox, self.folder = testbed, engine, busybox, folder
        self.docker = DockerBench(busybox, engine)
        self.proxy = GlanceProxy()
        self.archive = save(engine, busybox)
        self.busybox_id = str(engine.get(f"/images/{busybox}/json")["Id"])
        self._made: list[str] = []

    async def open(self) -> GlanceBench:
        conf = self._conf(await self.proxy.start())
        self.openstack = OpenStack(conf)
        await self.docker.runtime.connect()
        self.images = GlanceImages(self.openstack.glance, self.docker.runtime, conf, SystemClock())
        self.store = GlanceStore(self.openstack.glance, conf, SystemClock())
        return self

    def _conf(self, url: str) -> Any:
        file = self.folder / "glance.conf"
        account = {
            "auth_url": AUTH_URL, "auth_type": "password", "username": "zun", "password": PASSWORD,
            "project_name": "service", "user_domain_id": "default", "project_domain_id": "default",
            "region_name": REGION,
        }  # fmt: skip
        lines = ["[keystone_authtoken]", *(f"{name} = {value}" for name, value in account.items())]
        lines += ["[glance_client]", f"endpoint_override = {url}", "timeout = 5"]
        lines += ["[docker]", "pull_attempts = 2", "pull_stall_timeout = 5"]
        file.write_text("\n".join(lines) + "\n")
        return load(files=[str(file)])

    async def close(self) -> None:
        await self.openstack.close()
        await self.proxy.stop()
        for uuid in self._made:
            self.testbed.admin.call("image", "DELETE", f"/v2/images/{uuid}", absent_ok=True)
            self.engine.remove_image(engine_name(uuid))
        await self.docker.close()

    def caller(self, account: Account) -> Caller:
        return Caller(account.user_id, account.project_id, frozenset({"member"}), token=account.token)

    def record(self, account: Account, name: str, **fields: Any) -> str:
        """An image without data; its id."""
        body = {"name": name, "container_format": "docker", "disk_format": "raw", **fields}
        uuid = str(account.call("image", "POST", "/v2/images", json=body)["id"])
        self._made.append(uuid)
        return uuid

    def add_image(self, account: Account, name: str, *, data: bytes | None = None, **fields: Any) -> str:
        """An image with its data (busybox unless told otherwise); its id."""
        uuid = self.record(account, name, **fields)
        content = io.BytesIO(self.archive if data is None else data)
        headers = {"Content-Type": "application/octet-stream"}
        account.call("image", "PUT", f"/v2/images/{uuid}/file", content=content.getvalue(), headers=headers)
        return uuid

    def other_image(self) -> str:
        """Another image that has the very tag of busybox when it is saved, under a name of the test in the engine."""
        made = self.engine.post("/containers/create", {"Image": self.busybox, "Cmd": [secrets.token_hex(4)]}).json()[
            "Id"
        ]
        try:
            self.engine.post("/commit", {}, container=made, repo=f"{self.docker.domain}/other", tag="1")
        finally:
            self.engine.remove(made)
        return f"{self.docker.domain}/other:1"

    def stored(self, uuid: str) -> Path:
        """The file in which Glance keeps the data."""
        return FOLDER / "glance" / "images" / uuid

    def downloads(self, uuid: str) -> int:
        return self.proxy.downloads.count(uuid)


class GlanceThread:
    """A GlanceProxy in a thread of its own, for tests that block."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._proxy = GlanceProxy()
        self._thread = threading.Thread(target=self._loop.run_forever, name="glance-proxy", daemon=True)
        self._thread.start()
        self.url = asyncio.run_coroutine_threadsafe(self._proxy.start(), self._loop).result(10)

    def set(self, **values: Any) -> None:
        """Attributes of the proxy."""
        for name, value in values.items():
            assert hasattr(self._proxy, name)
            setattr(self._proxy, name, value)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._proxy.stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
