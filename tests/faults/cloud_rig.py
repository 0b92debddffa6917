"""A product each of whose services is reached through a proxy of its own, the API's and the node's apart; and what all
systems hold."""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.faults.rows import Row
from tests.support.cloud_product import CloudProduct, Service
from tests.support.engine import SOCKET, Engine
from tests.support.real_cloud import RealCloud
from tests.support.registry import start_registry
from tests.support.tcp_proxy import TcpProxy
from tests.support.testbed import PORTS, Testbed
from tests.support.testbed_project import Project
from tests.support.wait import wait_until
from zun.image.glance import engine_name

ROOT = Path(__file__).parents[2]
PLUGINS = Path("/usr/lib/docker/plugins")
SIDES = ("api", "node")
BY_SIDE = ("MariaDB", "RabbitMQ", "Keystone", "Placement", "Neutron", "Cinder", "Glance")


class FaultRig:
    """Shared by the rows of a module. After each of them ``nothing_is_held``."""

    def __init__(self, folder: Path, testbed: Testbed, engine: Engine, **options: dict[str, Any]) -> None:
        self.testbed, self.engine, self.folder = testbed, engine, folder
        self.project = Project(testbed).use_network()
        self.registry = start_registry(folder / "registry")
        self.registry.push_busybox("busybox", "latest")
        self.product = CloudProduct(folder / "zun", testbed, engine)
        self.holds = folder / "holds"
        self.holds.mkdir()
        self.proxies = {(name, side): TcpProxy(PORTS[name]) for name in BY_SIDE for side in SIDES}
        self.proxies["registry", "node"] = TcpProxy(int(self.registry.address.rpartition(":")[2]))
        self.proxies["Docker", "node"] = TcpProxy(0, SOCKET, folder / "docker.sock")
        self.proxies["Kuryr", "node"] = TcpProxy(PORTS["Kuryr"])
        self.plugin = PLUGINS / f"kuryr{secrets.token_hex(4)}.spec"
        self._glance_images: list[str] = []
        self.volume_id = ""
        self._configure(options)

    def _configure(self, options: dict[str, dict[str, Any]]) -> None:
        product = self.product
        registry = f"127.0.0.1:{self.proxy('registry').port}"
        product.conf(
            DEFAULT={"sync_container_state_interval": 2, "rpc_response_timeout": 8},
            docker={"api_url": f"unix://{self.folder}/docker.sock", "default_registry": registry,
                    "default_timeout": 10, "pull_attempts": 2, "pull_stall_timeout": 4},
            compute={"sweep_interval": 1, "abandoned_volume_seconds": 2, "reaper_interval": 1,
                     "orphan_grace_seconds": 2},
            volume={"timeout_wait_volume_available": 20, "timeout_wait_volume_deleted": 20},
            network={"driver_name": self.plugin.stem},
        )  # fmt: skip
        policy = self.folder / "policy.yaml"
        policy.write_text('"container:create:image_pull_policy": ""\n')
        product.conf(api={"policy_file": policy})
        product.conf(**options)
        for side, service in zip(SIDES, (product.api, product.node), strict=True):
            service.sections = {**service.sections, **self._endpoints(side, service)}
            service.command = [sys.executable, "-m", "tests.faults.pausable", service.program]
            service.env = {"ZUN_HOLD_FOLDER": str(self.holds), "PYTHONPATH": str(ROOT)}

    def _endpoints(self, side: str, service: Service) -> dict[str, dict[str, Any]]:
        def url(name: str) -> str:
            return self.proxy(name, side).url

        def moved(text: str, name: str) -> str:
            return text.replace(f":{PORTS[name]}/", f":{self.proxy(name, side).port}/")

        keystone = f"{url('Keystone')}/v3"
        clients = {
            f"{name.lower()}_client": {
                "endpoint_override": url(name) + {"Cinder": "/v3"}.get(name, ""),
                "timeout": 8,
            }
            for name in ("Placement", "Neutron", "Cinder", "Glance")
        }
        return {
            "DEFAULT": {
                **service.sections.get("DEFAULT", {}),
                "transport_url": moved(self.product.vhost.url, "RabbitMQ"),
            },
            "database": {"connection": moved(self.product.database.url, "MariaDB")},
            "keystone_authtoken": {"auth_url": keystone, "endpoint_override": keystone, "timeout": 5},
            **clients,
        }

    def proxy(self, service: str, side: str = "node") -> TcpProxy:
        return self.proxies[service, side]

    # -- the beginning and the end --------------------------------------------------------------------

    def start(self) -> FaultRig:
        if self.product.option("network", "driver") == "kuryr":
            self.plugin.write_text(f"http://127.0.0.1:{self.proxy('Kuryr').port}\n")
        self.product.start()
        self.cloud = RealCloud(self.product, self.project.account)
        self.admin = RealCloud(self.product)
        self.volume_id = self.cloud.make_volume()
        return self

    def close(self) -> None:
        """Nothing of the rig is left; each step is taken though one before it failed."""
        with ExitStack() as steps:
            for proxy in self.proxies.values():
                steps.callback(proxy.stop)
            for uuid in self._glance_images:
                steps.callback(self.engine.remove_image, engine_name(uuid))
            steps.callback(self.registry.stop)
            steps.callback(self.engine.forget_images, f"127.0.0.1:{self.proxy('registry').port}")
            steps.callback(self.plugin.unlink, missing_ok=True)
            steps.callback(self.project.remove, self.engine)
            steps.callback(self.product.close)
            steps.callback(self.release)
            for proxy in self.proxies.values():
                proxy.lift()

    # -- what a container asks for --------------------------------------------------------------------

    def body(self, needs: str) -> dict[str, Any]:
        """Of the create request."""
        at_hand = {"image_pull_policy": "ifnotpresent"}
        if needs == "volume":
            return {**at_hand, "mounts": [{"source": self.volume_id, "destination": "/data"}]}
        if needs == "size":
            return {**at_hand, "mounts": [{"size": "1", "destination": "/data"}]}
        if needs == "all":
            mounts = [{"source": self.volume_id, "destination": "/data"}, {"size": "1", "destination": "/more"}]
            return {**at_hand, "mounts": mounts, "exposed_ports": {"80/tcp": {}}}
        if needs == "exposed":
            return {**at_hand, "exposed_ports": {"80/tcp": {}}}
        if needs == "pull":
            return {}
        if needs == "new layer":
            self.registry.push_busybox("fresh", "latest", marker=secrets.token_bytes(16))
            return {"image": "fresh"}
        if needs == "glance":
            return {"image": self.glance_image(), "image_driver": "glance"}
        if needs == "group":
            return {**at_hand, "security_groups": ["default"]}
        if needs == "no image":
            return {"image": "nothing-of-this-name"}
        return at_hand

    def running(self, needs: str) -> str:
        """A container that runs; its uuid."""
        uuid = str(self.cloud.create(**self.body(needs))["uuid"])
        self.cloud.wait(uuid, "Running", timeout=120)
        return uuid

    def glance_image(self) -> str:
        """An image that the engine does not have; its id."""
        account = self.project.account
        body = {"name": f"fault-{secrets.token_hex(4)}", "container_format": "docker", "disk_format": "raw"}
        uuid = str(account.call("image", "POST", "/v2/images", json=body)["id"])
        archive = self.engine._http.get(f"/images/{self.engine.load_busybox()}/get").content
        headers = {"Content-Type": "application/octet-stream"}
        account.call("image", "PUT", f"/v2/images/{uuid}/file", content=archive, headers=headers)
        self._glance_images.append(uuid)
        return uuid

    # -- faults ---------------------------------------------------------------------------------------

    def hold(self, point: str) -> Path:
        (self.holds / point).touch()
        return self.holds / f"{point}.met"

    def release(self) -> None:
        for file in self.holds.iterdir():
            file.unlink()

    @contextmanager
    def broken(self, row: Row) -> Iterator[None]:
        """Broken from the row's step on, for the block. At a row with ``at`` the product is held there, and the fault
        begins with ``begin``."""
        proxy = self.proxy(row.service, row.side)
        keystone = row.service == "Keystone" and row.side == "node"
        asked, _, call = row.step.partition(" ")
        try:
            if row.at:
                self.hold(row.at)
            elif keystone:  # what makes the node log in is a service that does not take its token
                proxy.fault(row.fault)
                self.proxy(asked).fault("401", call)
            else:
                proxy.fault(row.fault, row.step or None)
            yield
        finally:
            self.release()
            proxy.lift()
            if keystone:
                self.proxy(asked).lift()

    def begin(self, row: Row) -> None:
        """The product stands at ``row.at``: now the fault."""
        met = self.holds / f"{row.at}.met"
        wait_until(met.exists, 60, f"{row.at} is reached;\n{self.product.tail()}")
        self.proxy(row.service, row.side).fault(row.fault, row.step or None)
        self.release()

    def wait_met(self, row: Row, kind: str, uuid: str) -> None:
        """The product has run into the fault; at a row with ``at`` it begins now. Without a broker it goes on."""
        log, since = self.product.node, len(self.product.node.log())
        if row.at:
            self.begin(row)
        if row.service == "RabbitMQ":
            if kind == "create":
                self.cloud.wait(uuid, "Running")
            else:
                self.cloud.wait_gone(uuid, 120)
        elif row.service == "MariaDB":
            # A step that needs no database goes on: it is missed at the end.
            self.wait_logged(log, rf"action={kind} container={uuid} .*result=(postponed|unwritten)", since)
        elif row.fault == "refuse":
            self.wait_logged(log, rf"service={row.service} path=\S+ result=again", since)
        else:
            wait_until(
                lambda: self.proxy(row.service).met,
                60,
                f"{row} is met; {self.proxy(row.service).calls[-9:]}\n{log.log(6000)}",
            )

    def recover(self) -> None:
        """All works again, and no container is left, also after a row that failed."""
        for proxy in self.proxies.values():
            proxy.lift()
        self.release()
        if self.product.recorded():
            self.product.clear()

    # -- what is held ---------------------------------------------------------------------------------

    def held(self) -> list[str]:
        """By any container of the project, in every system; empty when nothing is."""
        testbed, mine = self.testbed, self.project.id
        found = [f"engine container {row['Names']}" for row in self.product.engine_containers()]
        found += [f"mount {where}" for where in self.product.mounts()]
        found += [f"port {row['id']} of {row['device_id']}" for row in testbed.ports(project_id=mine)]
        found += [f"group {name}" for name in self.groups()]
        found += [f"device {name}" for name in self.devices()]
        found += [f"allocation of {uuid}" for uuid in testbed.allocations_on(self.product.node.host)]
        for volume in testbed.volumes(project_id=mine):
            if (volume["id"], volume["status"]) != (self.volume_id, "available"):
                found.append(f"volume {volume['name']} {volume['status']}")
        return found

    def devices(self) -> list[str]:
        """The host's ends of all ports that the node ever made, as far as they are there."""
        made = re.findall(r"action=ports container=\S+ made=(\S+)", self.product.node.log())
        names = [f"tap{port[:11]}" for ports in made for port in ports.split(",")]
        return [name for name in names if Path("/sys/class/net", name).exists()]

    def groups(self) -> list[str]:
        """Names of the project's security groups that opened exposed ports."""
        rows = self.testbed.security_groups(project_id=self.project.id)
        return [row["name"] for row in rows if row["name"].startswith("zun-")]

    def nothing_is_held(self, timeout: float = 90.0, *, kept: int = 0) -> None:
        """``kept``: volumes that stay, detached, with a container in ``Error``."""

        def as_wanted() -> bool:
            held = self.held()
            return len(held) == kept and all(re.fullmatch("volume .* available", text) for text in held)

        wait_until(as_wanted, timeout, f"nothing is left; {self.held()}\n{self.product.tail()}")

    def check_running(self, uuid: str, needs: str) -> None:
        """It runs in the end, and holds everything once, nothing twice."""
        shown = self.cloud.wait(uuid, "Running", "Error", timeout=120)
        assert shown["status"] == "Running", f"{shown['status_reason']}\n{self.product.tail()}"
        testbed, mine = self.testbed, self.project.id
        inspected = self.engine.container(uuid)
        assert inspected is not None
        assert inspected["State"]["Running"]
        assert len(self.product.engine_containers()) == 1
        assert [row["device_id"] for row in testbed.ports(project_id=mine)] == [uuid]
        assert testbed.allocations_on(self.product.node.host) == {uuid: {"VCPU": 1, "MEMORY_MB": 32}}
        assert self.groups() == ([f"zun-{uuid}"] if needs in ("exposed", "all") else [])
        volumes = testbed.volumes(project_id=mine)
        wanted = {"volume": 1, "size": 1, "all": 2}.get(needs, 0)
        assert [uuid] * wanted == [one["server_id"] for row in volumes for one in row["attachments"]]
        assert len(volumes) == (2 if needs in ("size", "all") else 1)

    def remove(self, uuid: str) -> None:
        """By the administrator, without the seconds that a stop may take."""
        self.admin.delete(uuid, force="true", all_projects="true")
        self.wait_gone(uuid)

    def wait_gone(self, uuid: str) -> None:
        self.cloud.wait_gone(uuid, 120)
        self.nothing_is_held()

    def wait_logged(self, service: Service, pattern: str, since: int) -> None:
        """A line that matches was written after the log's first ``since`` characters."""
        wanted = re.compile(pattern)
        wait_until(
            lambda: wanted.search(service.log()[since:]), 60, f"{pattern} is logged;\n{service.log()[since:][-6000:]}"
        )
