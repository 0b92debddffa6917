"""Valid bodies of what is fuzzed, and bytes that are no JSON, or not where it is said to be."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from random import Random
from typing import Any
from urllib.parse import urlencode

_MEMBERS: dict[str, Callable[[], Any]] = {
    "name": lambda: "fuzzed",
    "command": lambda: ["sleep", "1000"],
    "entrypoint": lambda: ["/bin/sh", "-c"],
    "cpu": lambda: 0.1,
    "cpu_policy": lambda: "shared",
    "memory": lambda: "16",
    "disk": lambda: 1,
    "workdir": lambda: "/tmp",
    "auto_remove": lambda: False,
    "auto_heal": lambda: True,
    "image_pull_policy": lambda: "ifnotpresent",
    "image_driver": lambda: "docker",
    "labels": lambda: {"a": "b", "c": "d"},
    "environment": lambda: {"A": "1", "B": "2"},
    "restart_policy": lambda: {"Name": "on-failure", "MaximumRetryCount": 2},
    "interactive": lambda: True,
    "tty": lambda: True,
    "security_groups": lambda: ["default"],
    "hints": lambda: {"group": "x"},
    "nets": lambda: [{"network": "default", "v4-fixed-ip": "10.0.0.9"}],
    "mounts": lambda: [{"type": "bind", "source": "aGk=", "destination": "/etc/a"}, {"size": "1", "destination": "/d"}],
    "runtime": lambda: "runc",
    "hostname": lambda: "host-1",
    "availability_zone": lambda: "nova",
    "privileged": lambda: False,
    "healthcheck": lambda: {"cmd": "true", "interval": "10", "retries": 2, "timeout": 3},
    "exposed_ports": lambda: {"80/tcp": {}, "53/udp": {}},
    "registry": lambda: "registry-0",
    "host": lambda: "localhost",
    "run": lambda: True,
}


def container(random: Random) -> dict[str, Any]:
    """A good create body with some of its members."""
    names = random.sample(sorted(_MEMBERS), random.randint(0, 5))
    return {"image": "busybox", **{name: _MEMBERS[name]() for name in names}}


def changes(random: Random) -> dict[str, Any]:
    """A good PATCH body."""
    good: dict[str, Any] = {"cpu": 0.2, "memory": "32", "auto_heal": True, "name": "renamed"}
    names = random.sample(sorted(good), random.randint(1, 3))
    return {name: good[name] for name in names}


def capsule(random: Random) -> dict[str, Any]:
    """A good template of one or two containers."""
    entry: dict[str, Any] = {
        "image": "busybox", "command": ["sleep"], "args": ["1000"], "env": {"A": "1"}, "workDir": "/",
        "imagePullPolicy": "ifnotpresent", "stdin": False, "tty": False, "name": "first",
        "resources": {"requests": {"cpu": 0.1, "memory": 16}},
        "ports": [{"containerPort": 80, "protocol": "TCP", "hostPort": 80, "name": "http"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
    }  # fmt: skip
    names = random.sample(sorted(set(entry) - {"image"}), random.randint(0, 4))
    chosen = {name: entry[name] for name in ["image", *names]}
    spec: dict[str, Any] = {"containers": [chosen], "restartPolicy": "Always"}
    if random.getrandbits(1):
        spec["initContainers"] = [{"image": "busybox", "command": ["true"]}]
    if "volumeMounts" in names:
        spec["volumes"] = [{"name": "data", "cinder": {"size": 1, "autoRemove": True}}]
    metadata = {"name": "fuzzed", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    template = {"kind": "capsule", "capsuleVersion": "beta", "metadata": metadata, "spec": spec}
    if random.getrandbits(1):
        template["availabilityZone"] = "nova"
    return {"template": template}


FORM = b"application/x-www-form-urlencoded"
_PARTS = b'--x\r\nContent-Disposition: form-data; name="image"\r\n\r\nbusybox\r\n--x--\r\n'
Kinds = dict[bytes, bytes]
"""Headers that belong to the changed body."""


def spoilt(random: Random, raw: bytes) -> tuple[bytes, Kinds]:
    """Three times in four the body as it is."""
    if random.randint(0, 3):
        return raw, {}
    place = random.randint(0, len(raw))
    text = raw.decode("utf-8", "replace")
    noise = Random(place).randbytes(random.choice((1, 7, 300)))  # drawn, so repeatable
    kind = random.randint(0, 19)
    whole: list[Callable[[], bytes | tuple[bytes, Kinds]]] = [
        lambda: raw[:place],
        lambda: raw[:place],
        lambda: raw[:place] + noise + raw[place:],
        lambda: raw[:place] + noise[:1] + raw[place + 1 :],
        lambda: raw + raw,
        lambda: raw + b"\x00",
        lambda: b"\xef\xbb\xbf" + raw,
        lambda: text.encode("utf-16"),
        lambda: text.encode("utf-16-le"),
        lambda: text.encode("utf-32"),
        lambda: text.encode("latin-1", "replace"),
        lambda: raw.replace(b'"', b"'"),
        lambda: b" \t\r\n" * 20_000 + raw,
        lambda: (gzip.compress(raw), {b"Content-Encoding": b"gzip"}),
        lambda: (urlencode({"image": "busybox", "name": text[:99], "data": text, "path": "/tmp"}).encode(), {
            b"Content-Type": FORM,
        }),
        lambda: (b"image=%ff&image=%00&a=%zz&=&&&path=/tmp&data=" + noise, {b"Content-Type": FORM}),
        lambda: (_PARTS, {b"Content-Type": b"multipart/form-data; boundary=x"}),
        lambda: random.choice((b"", b"null", b"[]", b"7", b'"x"', b"{}", b"\x00", b"{", b"NaN", b'{"a"')),
        lambda: b"[" + raw + b"]",
        lambda: raw + b" " * 1_100_000,
    ]  # fmt: skip
    found = whole[kind]()
    return found if isinstance(found, tuple) else (found, {})
