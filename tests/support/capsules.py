"""Templates of capsules and their creation through the API, for tests without an engine."""

from __future__ import annotations

from typing import Any

import httpx

SAMPLE = {
    "kind": "capsule",
    "capsuleVersion": "beta",
    "metadata": {"name": "cap1", "labels": {"a": "b"}, "annotations": {"k": "v"}},
    "spec": {
        "restartPolicy": "OnFailure",
        "containers": [
            {
                "image": "nginx",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": 1, "memory": 256}},
            }
        ],
    },
}


def template(*entries: dict[str, Any], name: str | None = None, **spec: Any) -> dict[str, Any]:
    listed = [{"image": "nginx", **one} for one in entries or ({},)]
    return {"kind": "capsule", "metadata": {"name": name}, "spec": {"containers": listed, **spec}}


async def create(client: httpx.AsyncClient, wanted: dict[str, Any], version: str = "1.40") -> dict[str, Any]:
    headers = {"OpenStack-API-Version": f"container {version}"}
    answer = await client.post("/v1/capsules", json={"template": wanted}, headers=headers)
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"http://localhost/v1/capsules/{answer.json()['uuid']}"
    return dict(answer.json())
