"""How the product starts, refuses to start, stops, and what a user finds in the state directory."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.forks import real_starts
from tests.support.product import ZUN, Product

MakeProduct = Callable[[], Product]


@pytest.fixture(autouse=True)
def real() -> Iterator[None]:
    """What is told here of starts is seen of real ones."""
    with real_starts():
        yield


def refused(product: Product) -> str:
    """What a start that fails says; one sentence, exit code 1, at once."""
    process = product.spawn()
    assert process.wait(60) == 1, product.log()
    said = product.log()
    assert said.startswith("zun: ")
    assert said.count("\n") == 1, said
    return said


def test_healthy_within_three_seconds_and_private_files(make_product: MakeProduct) -> None:
    product = make_product()
    product.start()
    # By its own time: how long a busy machine lets it wait is not the product's. The first start also migrates an empty
    # database; and processors that are shared count more than is done.
    times = psutil.Process(product.pid).cpu_times()
    assert times.user + times.system < 10
    for path in (product.state.conf_file, product.state.admin_token, product.state.openrc):
        assert path.stat().st_mode & 0o777 == 0o600
    assert product.state.running_pid() == product.pid


def test_stop_is_clean_and_a_restart_keeps_the_token(product: Product) -> None:
    token = product.admin_token
    assert product.terminate() == 0
    assert not product.state.pid_file.exists()
    product.start()
    assert product.admin_token == token
    assert product.http().get("/v1/containers").status_code == 200


def test_starts_again_after_sigkill(product: Product) -> None:
    product.kill()
    assert product.state.running_pid() is None
    product.start()
    assert product.state.running_pid() == product.pid


def test_a_second_instance_is_refused(product: Product) -> None:
    done = product.cli("up", check=False)
    assert done.returncode == 1
    assert done.stderr == f"zun: Zun already runs from {product.state.root} (process {product.pid}).\n"
    assert product.running


def test_a_taken_port_is_refused(make_product: MakeProduct) -> None:
    product = make_product()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", product.port))
        taken.listen()
        assert f"Port {product.port} of 127.0.0.1 is taken" in refused(product)


def test_no_engine_is_refused(make_product: MakeProduct) -> None:
    product = make_product().conf(docker={"api_url": "unix:///nowhere/docker.sock"})
    said = refused(product)
    assert "No Docker engine answers at unix:///nowhere/docker.sock" in said
    assert "apt-get install docker.io" in said


@pytest.mark.parametrize(
    ("section", "option", "value"),
    [
        ("api", "port", "http"),
        ("DEFAULT", "container_driver", "vmware"),
        ("compute", "create_deadline", "0"),
        ("DEFAULT", "auth_encryption_key", "short"),
        ("DEFAULT", "transport_url", "pigeon://"),
    ],
)
def test_a_wrong_option_is_refused_and_named(make_product: MakeProduct, section: str, option: str, value: str) -> None:
    said = refused(make_product().conf(**{section: {option: value}}))
    assert said.startswith("zun: Wrong configuration: ")
    assert option in said
    assert "LocationInfo" not in said  # how oslo.config writes where a value came from


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system without room."""
    where = tmp_path / "full"
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "zun-test", str(where)], check=True)
    try:
        yield where
    finally:
        subprocess.run(["umount", str(where)], check=True)


def up(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(ZUN), "up", "--state-dir", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)


def test_a_full_disk_is_refused(full_disk: Path) -> None:
    (full_disk / "ballast").write_bytes(b"\0" * 60 * 1024)
    done = up(full_disk / "zun")
    assert (done.returncode, done.stderr) == (1, f"zun: The disk of the state directory {full_disk}/zun is full.\n")


def test_a_read_only_place_is_refused(full_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(full_disk)], check=True)
    done = up(full_disk / "zun")
    assert done.returncode == 1
    assert f"The state directory {full_disk}/zun cannot be used: Read-only file system." in done.stderr


def test_tokens_isolate_projects(product: Product) -> None:
    member = product.token("demo")
    assert product.http(member).get("/v1/hosts").status_code == 403
    listed = product.cli("token", "list").stdout
    assert "demo" in listed
    assert member not in listed
    assert "demo" in product.cli("project", "list").stdout
    ident = next(line.split()[0] for line in listed.splitlines() if "demo" in line)
    product.cli("token", "revoke", ident)
    assert product.cli("token", "revoke", ident, check=False).returncode == 1


def test_status_says_what_runs(product: Product) -> None:
    shown = product.cli("status").stdout
    assert f"process {product.pid}" in shown
    assert "zun-compute" in shown
    product.terminate()
    assert product.cli("status", check=False).returncode == 1


def test_volumes_by_name(product: Product) -> None:
    ident = product.cli("volume", "create", "data").stdout.strip()
    assert ident in product.cli("volume", "list").stdout
    product.cli("volume", "delete", "data")
    assert ident not in product.cli("volume", "list").stdout
    assert product.cli("volume", "delete", "data", check=False).returncode == 1


def test_a_container_outlives_the_product_and_is_found_again(product: Product, busybox: str) -> None:
    http = product.http()
    body = {"image": busybox, "image_pull_policy": "ifnotpresent", "command": ["sleep", "600"], "memory": "64"}
    made = http.post("/v1/containers?run=true", json=body)
    assert made.status_code == 202, made.text
    path = f"/v1/containers/{made.json()['uuid']}"
    product.wait_status(path, "Running")
    before = product.engine_containers()
    product.restart()
    assert product.http().get(path).json()["status"] == "Running"
    assert [row["Id"] for row in product.engine_containers()] == [row["Id"] for row in before]
    product.clear()
