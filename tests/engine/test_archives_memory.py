"""A large archive through the whole product on the real engine, and what it takes in memory."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import tarfile
import threading

import httpx
import psutil

from tests.support.cloud import Cloud
from tests.support.product import Product
from tests.support.wait import wait_until

MIB = 1024 * 1024


class Peak:
    """The most memory the product's processes had while the block ran, in MiB."""

    def __init__(self, product: Product) -> None:
        self._product = product
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch)
        self.before = self.most = self._now()

    def _now(self) -> int:
        process = psutil.Process(self._product.pid)
        return sum(one.memory_info().rss for one in (process, *process.children(recursive=True))) // MIB

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self.most = max(self.most, self._now())

    def __enter__(self) -> Peak:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()


def test_fifty_mebibytes_through_the_product(shared_product: Product, busybox: str) -> None:
    cloud = Cloud(shared_product, busybox)
    uuid = cloud.running(image_pull_policy="ifnotpresent")["uuid"]
    content = os.urandom(50 * MIB)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        member = tarfile.TarInfo("big")
        member.size = len(content)
        made.addfile(member, io.BytesIO(content))
    body = {"data": base64.b64encode(buffer.getvalue()).decode()}
    with httpx.Client(base_url=cloud.http.base_url, headers=cloud.http.headers, timeout=120) as http:
        with Peak(shared_product) as taken:
            answer = http.post(f"/v1/containers/{uuid}/put_archive", params={"path": "/tmp"}, json=body)
        assert answer.status_code == 200, answer.text
        with Peak(shared_product) as given:
            answer = http.get(f"/v1/containers/{uuid}/get_archive", params={"path": "/tmp/big"})
    assert answer.status_code == 200
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(answer.json()["data"]))) as opened:
        found = opened.extractfile("big")
        assert found is not None
        assert hashlib.sha256(found.read()).digest() == hashlib.sha256(content).digest()
    print(f"put {taken.before} -> {taken.most} MiB, get {given.before} -> {given.most} MiB")
    assert taken.most - taken.before < 5 * 67, "the upload is in memory as text, a few times for a moment"
    assert given.most - given.before < 64, "a download is not"
    cloud.delete(uuid, force="true")
    wait_until(lambda: cloud.show(uuid) is None, 30, "gone")
