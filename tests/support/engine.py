"""The container engine as a test sees it: behind the product's back, by owner label."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import httpx

SOCKET = os.environ.get("ZUN_TEST_DOCKER_SOCKET", "/var/run/docker.sock")
OWNER_LABEL = "org.openstack.zun.owner"
BUSYBOX = "zun-test/busybox:latest"
"""Debian's busybox, built here: no registry is asked for it."""
PAUSE = "zun-test/pause:latest"

_FIRST_IMAGE = Path(__file__).parents[2] / "scripts" / "first_image.py"


class Engine:
    """A few calls of the Docker API, blocking. ``owner`` is a deployment id: the part of the label before the slash."""

    def __init__(self, socket: str = SOCKET) -> None:
        self.url = f"unix://{socket}"
        self._http = httpx.Client(transport=httpx.HTTPTransport(uds=socket), base_url="http://docker", timeout=60)

    def close(self) -> None:
        self._http.close()

    def ping(self) -> bool:
        try:
            return self._http.get("/_ping").status_code == 200
        except httpx.HTTPError:
            return False

    def load_busybox(self) -> str:
        """Name of an image that is in the engine afterwards."""
        subprocess.run([sys.executable, str(_FIRST_IMAGE), self.url, BUSYBOX], check=True, timeout=120)
        return BUSYBOX

    def load_pause(self) -> str:
        """Name of an image whose program sleeps for ever; it is in the engine afterwards."""
        recipe = f'FROM {self.load_busybox()}\nCMD ["sleep", "2147483647"]\n'.encode()
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as made:
            entry = tarfile.TarInfo("Dockerfile")
            entry.size = len(recipe)
            made.addfile(entry, io.BytesIO(recipe))
        headers = {"Content-Type": "application/x-tar"}
        answer = self._http.post("/build", params={"t": PAUSE, "rm": "1"}, content=packed.getvalue(), headers=headers)
        assert '"error"' not in answer.text, answer.text
        return PAUSE

    def get(self, path: str, **params: Any) -> Any:
        answer = self._http.get(path, params=params)
        answer.raise_for_status()
        return answer.json()

    def text(self, path: str, **params: Any) -> str:
        """The answer as text (event streams with an end)."""
        answer = self._http.get(path, params=params)
        answer.raise_for_status()
        return answer.text

    def post(self, path: str, body: Any = None, **params: Any) -> httpx.Response:
        answer = self._http.post(path, json=body, params=params)
        answer.raise_for_status()
        return answer

    def containers(self, owner: str) -> list[dict[str, Any]]:
        """All containers of a deployment, in the engine's list form."""
        filters = json.dumps({"label": [OWNER_LABEL]})
        rows = self.get("/containers/json", all="true", filters=filters)
        return [row for row in rows if row["Labels"].get(OWNER_LABEL, "").partition("/")[0] == owner]

    def container(self, uuid: str) -> dict[str, Any] | None:
        """Inspect ``zun-<uuid>``; None when the engine does not have it."""
        answer = self._http.get(f"/containers/zun-{uuid}/json")
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def networks(self, names: set[str]) -> list[str]:
        """Names of engine networks that hold one of ``names`` (network uuids) in their own."""
        return [row["Name"] for row in self.get("/networks") if any(name in row["Name"] for name in names)]

    def remove(self, ident: str) -> None:
        """Kills and removes a container; absent is success."""
        answer = self._http.delete(f"/containers/{ident}", params={"force": "true", "v": "true"})
        if answer.status_code not in (204, 404, 409):
            answer.raise_for_status()

    def forget_images(self, registry: str) -> None:
        """Removes the names that images of a test's registry (``127.0.0.1:PORT``) have in the engine."""
        for image in self.get("/images/json"):
            for name in [*(image["RepoTags"] or []), *(image["RepoDigests"] or [])]:
                if name.startswith(f"{registry}/"):
                    answer = self._http.delete(f"/images/{name}", params={"noprune": "false"})
                    if answer.status_code not in (200, 404, 409):
                        answer.raise_for_status()

    def remove_image(self, name: str) -> None:
        """Takes the name away; absent is success."""
        answer = self._http.delete(f"/images/{name}")
        if answer.status_code not in (200, 404):
            answer.raise_for_status()

    def remove_network(self, name: str) -> None:
        answer = self._http.delete(f"/networks/{name}")
        if answer.status_code not in (204, 404):
            answer.raise_for_status()
