"""What the four tests of capsules ask for that zun-tempest-plugin has, and skips; for tests of our own.

Images: ``tests.tempest.images``.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

VOLUME = "test-volume"
PAGE = "hello"


def _template(containers: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    metadata = {"name": f"capsule-{uuid4().hex[:10]}"}
    return {
        "kind": "capsule",
        "capsuleVersion": "beta",
        "metadata": metadata,
        "spec": {"containers": containers, **spec},
    }


def plain() -> dict[str, Any]:
    """An image and nothing else."""
    return _template([{"image": "cirros:latest"}])


def full() -> dict[str, Any]:
    """All that one container can say. The plug-in's shell has no input and so ends at once; with ``stdin`` it stays,
    and ``Running`` says something."""
    entry = {
        "image": "ubuntu",
        "command": ["/bin/bash"],
        "stdin": True,
        "env": {"ENV1": "/usr/local/bin", "ENV2": "/usr/bin"},
        "ports": [{"name": "nginx-port", "containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": 1, "memory": 256}},
        "workDir": "/root",
    }
    made = _template([entry], restartPolicy="Always")
    made["metadata"]["labels"] = {"app": "web", "app1": "web1"}
    return made


def with_volume(volume_id: str) -> dict[str, Any]:
    """A volume that is there already, at /test-volume."""
    entry = {"image": "cirros:latest", "volumeMounts": [{"name": VOLUME, "mountPath": "/test-volume"}]}
    return _template([entry], volumes=[{"name": VOLUME, "cinder": {"volumeID": volume_id}}])


def with_init_container() -> dict[str, Any]:
    """An init container writes the page that a web server then serves from a new volume that goes with the capsule."""

    def mounted(path: str) -> list[dict[str, str]]:
        return [{"name": "workdir", "mountPath": path}]

    init = {
        "image": "cirros:latest",
        "command": ["/bin/sh", "-c", f"echo '{PAGE}' > /work-dir/index.html"],
        "volumeMounts": mounted("/work-dir"),
    }
    server = {
        "image": "nginx",
        "volumeMounts": mounted("/usr/share/nginx/html"),
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
    }
    volumes = [{"name": "workdir", "cinder": {"size": 1, "autoRemove": True}}]
    return _template([server], initContainers=[init], volumes=volumes)


def asking(address: str) -> dict[str, Any]:
    """Fetches the page once and ends."""
    return _template(
        [{"image": "cirros:latest", "command": ["curl", "-s", "-m", "20", address]}], restartPolicy="Never"
    )


def all_run(shown: dict[str, Any]) -> None:
    """The capsule and each member run, its init containers have ended."""
    assert shown["status"] == "Running"
    assert {one["status"] for one in shown["containers"]} == {"Running"}
    assert {one["status"] for one in shown["init_containers"]} <= {"Stopped"}


def address_of(shown: dict[str, Any]) -> str:
    """The capsule's only one."""
    ((address, *_),) = shown["addresses"].values()
    return str(address["addr"])
