"""Waits until the product is ready; with `run`, runs a first container over the REST API and prints its output.

first_container.py wait|run STATE-DIR ENGINE-URL PID. Standard library only.
"""

import contextlib
import json
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parent))
import first_image

READY_DEADLINE = 60.0  # seconds
RUN_DEADLINE = 180.0
REGISTRY_TIMEOUT = 8.0
PUBLIC = "busybox:latest"
BUILT = "zun/hello-busybox:latest"
HELLO = (
    'echo "Hello from container $(hostname): $(uname -sr) on $(uname -m), $(busybox | head -n 1 | cut -d" " -f1,2)."'
)


class Failed(Exception):
    """The message is for the person at the terminal."""


class Api:
    """The product's API with the admin token."""

    def __init__(self, state: Path) -> None:
        openrc = dict(
            line.removeprefix("export ").split("=", 1)
            for line in (state / "openrc").read_text().splitlines()
            if line.startswith("export ")
        )
        self.url, self.token = openrc["OS_ENDPOINT"], openrc["OS_TOKEN"]

    def __call__(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """Status and parsed body. Raises OSError when nothing answers."""
        request = urllib.request.Request(self.url.removesuffix("/v1") + path, method=method)
        request.add_header("X-Auth-Token", self.token)
        request.add_header("OpenStack-API-Version", "container 1.40")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, _parsed(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, _parsed(error.read())


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return raw.decode(errors="replace")


def _title(body: Any) -> str:
    try:
        return str(body["errors"][0]["title"])
    except (TypeError, KeyError, IndexError):
        return str(body)


def wait_ready(state: Path, pid: int) -> Api:
    """Until /healthcheck says 200 and this host's agent is up. Raises Failed."""
    deadline, said = time.monotonic() + READY_DEADLINE, ""
    while True:
        step = "the API"
        with contextlib.suppress(OSError, ValueError, KeyError):
            api = Api(state)
            if api("GET", "/healthcheck")[0] == 200:
                step = "the agent to register this host"
                status, body = api("GET", "/v1/services")
                if status == 200 and any(s["binary"] == "zun-compute" and s["state"] == "up" for s in body["services"]):
                    return api
        if not Path(f"/proc/{pid}").exists():
            raise Failed("The product ended while it was starting.")
        if time.monotonic() > deadline:
            raise Failed(f"The product is not ready after {READY_DEADLINE:.0f} s: still waiting for {step}.")
        if step != said:
            print(f"Waiting for {step} ...", flush=True)
            said = step
        time.sleep(0.1)


def choose_image(engine: str) -> str:
    """The public image where the engine reaches a registry (asked quickly), else one built here and loaded."""
    for name in (PUBLIC, BUILT):
        if first_image.call(engine, "GET", f"/images/{quote(name, safe='/:')}/json")[0] == 200:
            return name
    with contextlib.suppress(OSError):
        if first_image.call(engine, "GET", f"/distribution/{PUBLIC}/json", timeout=REGISTRY_TIMEOUT)[0] == 200:
            return PUBLIC
    print("No public registry answers; building the first image from Debian's busybox-static.", flush=True)
    first_image.load(engine, BUILT)
    return BUILT


def run_first(api: Api, image: str) -> None:
    """Runs, shows and removes the container. Raises Failed."""
    request = {
        "name": "hello",
        "image": image,
        "image_pull_policy": "ifnotpresent",
        "command": ["sh", "-c", HELLO],
        "cpu": 0.1,
        "memory": "64",
    }
    status, body = api("POST", "/v1/containers?run=true", request)
    if status != 202:
        raise Failed(f"The first container was refused: {_title(body)} (HTTP {status}).")
    path = f"/v1/containers/{body['uuid']}"
    try:
        final = _until(api, path, lambda code, row: code != 200 or row["status"] in ("Stopped", "Error"))
        if final is None or final["status"] == "Error":
            raise Failed(f"The first container failed: {final and final['status_reason']}")
        print(f"\n    {api('GET', path + '/logs')[1].strip()}\n", flush=True)
    finally:
        api("DELETE", f"{path}?force=true")
    _until(api, path, lambda code, _: code == 404)


def _until(api: Api, path: str, done: Any) -> Any:
    deadline, pause = time.monotonic() + RUN_DEADLINE, 0.05
    while True:
        status, row = api("GET", path)
        if done(status, row):
            return row if status == 200 else None
        if time.monotonic() > deadline:
            raise Failed(f"The first container is still {row.get('status')} after {RUN_DEADLINE:.0f} s.")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)


def main() -> int:
    verb, state, engine, pid = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    try:
        api = wait_ready(state, pid)
        if verb == "run":
            image = choose_image(engine)
            print(f"Running a first container from {image}:", flush=True)
            run_first(api, image)
            (state / "first-image").write_text(image + "\n")
    except (Failed, RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
