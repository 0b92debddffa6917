"""Scenario 4 beside the real services: zun-api, zun-compute and zun-wsproxy as processes of their own, certificates of
the operator's, and the unmodified client that logs in at Keystone and finds us in its catalog."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.capsule_node import CapsuleNode
from tests.support.cloud_product import Service
from tests.support.product import free_port
from tests.support.real_cloud import RealCloud
from tests.support.stock_client import StockClient
from tests.support.stock_terminal import ask, exited, interrupt, size_is, typed
from tests.support.testbed import HOST, Testbed
from tests.support.wait import wait_until

pytestmark = [pytest.mark.xdist_group("s4-cloud"), pytest.mark.timeout(600)]


@contextmanager
def catalog(testbed: Testbed, url: str) -> Iterator[str]:
    """A region of the test's own whose catalog has us; its name."""
    region = f"zun-test-{secrets.token_hex(4)}"

    def call(method: str, path: str, **body: object) -> dict[str, dict[str, str]]:
        answer = testbed.admin.call("identity", method, path, json=body or None)
        return dict(answer or {})

    call("POST", "/regions", region={"id": region})
    service = call("POST", "/services", service={"type": "container", "name": region})["service"]["id"]
    try:
        at = {"service_id": service, "interface": "public", "region_id": region, "url": f"{url}/v1"}
        call("POST", "/endpoints", endpoint=at)
        yield region
    finally:
        call("DELETE", f"/services/{service}")  # with its endpoints
        call("DELETE", f"/regions/{region}")


@pytest.fixture
def proxy(rig: CapsuleNode, tmp_path: Path) -> Iterator[Service]:
    """zun-wsproxy beside a node whose relay has certificates as the guide has them made."""
    product, keys, port = rig.product, tmp_path / "relay", free_port()
    product.tool("zun-manage", "relay", "certificates", str(keys), "--node", HOST)
    folder = tmp_path / "wsproxy"
    folder.mkdir()
    made = Service(
        "zun-wsproxy",
        folder,
        relay={"client_cert_file": keys / "proxy.pem", "client_key_file": keys / "proxy.key"},
    )
    product.node.sections["relay"] = {
        "listen": HOST, "cert_file": keys / f"{HOST}.pem", "key_file": keys / f"{HOST}.key",
    }  # fmt: skip
    product.conf(
        relay={"ca_file": keys / "ca.pem"},
        websocket_proxy={"wsproxy_host": HOST, "wsproxy_port": port, "base_url": f"ws://{HOST}:{port}/"},
    )
    product.others.append(made)
    product.restart()
    made.spawn()
    wait_until(lambda: "action=wsproxy" in made.log() or not made.running, 30, "the proxy listens")
    yield made
    assert made.terminate() == 0, made.log(4000)


@pytest.fixture
def user(rig: CapsuleNode, testbed: Testbed) -> Iterator[StockClient]:
    """The project's user, who has a name and a password."""
    with catalog(testbed, rig.product.url) as region:
        yield StockClient.with_password(rig.project.account, region)


def test_s4_exec_and_attach_of_containers_and_members(rig: CapsuleNode, proxy: Service, user: StockClient) -> None:
    cloud = RealCloud(rig.product, rig.project.account)
    capsule = rig.create("exec sh", stdin=True, tty=True)
    own = cloud.running(name="talk", command=["sh"], interactive=True, tty=True)["uuid"]
    member = rig.wait(capsule, "Running")["containers"][0]["uuid"]
    for target in ("talk", member):
        with typed(user, "exec", "--interactive", target, "sh") as child:
            ask(child, "echo $((6*7)) ü", "42 ü")
            wait_until(lambda child=child: size_is(child, "30 100"), 30, "the size at the start")  # type: ignore[misc]
            child.setwinsize(20, 70)
            wait_until(lambda child=child: size_is(child, "20 70"), 30, "the size follows")  # type: ignore[misc]
            interrupt(child)
            child.send("exit\r")
            assert exited(child) == 0
        with typed(user, "attach", target) as child:
            ask(child, "kept=$((6*7)); echo $kept", "42")
            child.send("\x10\x11")  # Control-P, Control-Q
            assert exited(child) == 0
        with typed(user, "attach", target) as child:
            ask(child, "echo again $kept", "again 42")
            child.send("\x10\x11")
            assert exited(child) == 0
    account = rig.project.account
    audit = [line for line in proxy.log().splitlines() if "zun.wsproxy.audit" in line]
    assert len(audit) == 6
    assert all(f"user={account.user_id} project={account.project_id}" in line for line in audit), audit
    assert sum(f"container={own}" in line for line in audit) == 3
    assert sum("kind=exec" in line and "exit_code=0" in line for line in audit) == 2
    cloud.delete(own, stop="true")
    cloud.wait_gone(own)
    rig.delete(capsule)
