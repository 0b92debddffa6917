"""The operator's guide followed line by line: its commands are run as they stand, in one shell, on the testbed.

Only what a test must not do to its machine is replaced: packages, system accounts, the places of files, systemd.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.engine import Engine
from tests.support.stock_client import StockClient
from tests.support.testbed import AUTH_URL, FOLDER, HOST, MACHINE, PASSWORD, REGION, REGISTRY, Account, Testbed
from tests.support.testbed_project import Project
from tests.support.testbed_stores import USER, CloudDatabase, CloudVhost, _run

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "howto" / "operators-guide.md"
PROGRAMS = Path(sys.executable).parent

# What stands in for programs that change the machine. `systemctl enable --now UNIT` runs the unit's ExecStart.
PRELUDE = r"""
set -euo pipefail
mysql() { mariadb --no-defaults --socket "$MYSQL_SOCKET" -u root "$@"; }
apt-get() { :; }
useradd() { :; }
python3() { [[ "$1 $2" == "-m venv" ]]; }
hostname() { echo "$MACHINE"; }
install() {
    local words=()
    while (($#)); do
        case $1 in -o|-g) shift 2 ;; *) words+=("$1"); shift ;; esac
    done
    command install "${words[@]}"
}
systemctl() {
    [[ $1 == daemon-reload ]] && return
    [[ $1 == enable && $2 == --now ]]
    local command
    command=$(sed -n 's/^ExecStart=//p' "$TEST_ROOT/systemd/$3.service" | sed "$PLACES")
    setsid $command >"$TEST_ROOT/$3.log" 2>&1 </dev/null &
    echo $! >>"$TEST_ROOT/pids"
}
"""
WAIT_UNTIL_GONE = 'until test -z "$(openstack appcontainer list -f value -c uuid)"; do sleep 0.5; done'
WAIT_FOR_NODE = "until openstack appcontainer service list -f value -c State | grep -qx up; do sleep 0.5; done"


def blocks() -> list[tuple[str, str]]:
    """(heading, commands) of every fenced bash block of the guide, in order."""
    found, heading = [], ""
    for match in re.finditer(r"(?ms)^## (.+?)$|^```bash\n(.*?)^```", GUIDE.read_text()):
        heading = match[1] or heading
        if match[2]:
            found.append((heading, match[2]))
    return found


class Machine:
    """A folder that stands for the machine, and what the guide makes outside of it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.database, self.vhost = CloudDatabase(name), CloudVhost(name)
        self.places = {
            "/etc/systemd/system": f"{folder}/systemd",
            "/etc/zun": f"{folder}/etc",
            "/var/lib/zun": f"{folder}/state",
            "/opt/zun": f"{folder}/opt",
        }
        for made in ("systemd", "opt/bin", "source"):
            (folder / made).mkdir(parents=True)
        for program in PROGRAMS.glob("zun*"):
            (folder / "opt/bin" / program.name).symlink_to(program)
        pip = folder / "opt/bin/pip"
        pip.write_text("#!/bin/sh\ntest -f source/constraints.txt || exit 1\n".replace("source", f"{folder}/source"))
        pip.chmod(0o755)
        shutil.copytree(ROOT / "deploy", folder / "source/deploy")
        shutil.copy(ROOT / "constraints.txt", folder / "source")
        conf = folder / "source/deploy/zun.conf"
        text = conf.read_text().replace("//zun:ZUN_DBPASS@CONTROLLER/zun", f"//{name}:ZUN_DBPASS@CONTROLLER/{name}")
        text = text.replace("@CONTROLLER:5672/", f"@CONTROLLER:5672/{name}")
        conf.write_text(text.replace("#default_registry = registry.example.org:5000", f"default_registry = {REGISTRY}"))

    def at_home(self, text: str) -> str:
        """Commands with the places and names of this machine."""
        for place, here in self.places.items():
            text = text.replace(place, here)
        text = text.replace("DATABASE zun ", f"DATABASE {self.name} ").replace("ON zun.*", f"ON {self.name}.*")
        text = text.replace("'zun'@", f"'{self.name}'@")
        return text.replace("/usr/local/src/zun", f"{self.folder}/source")

    def log(self) -> str:
        return "\n".join(f"--- {file.name}\n{file.read_text()[-4000:]}" for file in self.folder.glob("*.log"))

    def remove(self, testbed: Testbed) -> None:
        """Ends the services and takes back the database, the virtual host and the provider."""
        pids = self.folder / "pids"
        for pid in pids.read_text().split() if pids.exists() else []:
            subprocess.run(["kill", "--", f"-{pid}"], check=False)
            subprocess.run(["timeout", "30", "tail", "-f", f"--pid={pid}", "/dev/null"], check=True)
        self.vhost.drop()
        self.database.drop()
        _run(CloudDatabase._url("mysql"), f"DROP USER IF EXISTS '{self.name}'@%s", ("%",))
        testbed.remove_provider(MACHINE)


@pytest.fixture
def machine(tmp_path: Path, testbed: Testbed) -> Iterator[Machine]:
    found = Machine(tmp_path, f"guide_{secrets.token_hex(4)}")
    found.vhost.create()
    before = {row["id"] for row in testbed.admin.call("identity", "GET", "/services")["services"]}
    yield found
    found.remove(testbed)
    for row in testbed.admin.call("identity", "GET", "/services")["services"]:
        if row["id"] not in before:
            testbed.admin.call("identity", "DELETE", f"/services/{row['id']}")


def _credentials(account: Account) -> dict[str, str]:
    return {
        "OS_AUTH_URL": AUTH_URL,
        "OS_USERNAME": account.user,
        "OS_PASSWORD": account.password,
        "OS_PROJECT_NAME": account.project,
        "OS_USER_DOMAIN_ID": "default",
        "OS_PROJECT_DOMAIN_ID": "default",
        "OS_REGION_NAME": REGION,
        "OS_IDENTITY_API_VERSION": "3",
    }


@pytest.mark.timeout(600)
def test_a_new_operator_gets_a_first_container(
    machine: Machine, project: Project, testbed: Testbed, engine: Engine, new_project: Callable[..., Project]
) -> None:
    openstack = StockClient("", "").program
    script = [PRELUDE]
    for heading, commands in blocks():
        script.append(f"echo '== {heading}'")
        if heading.startswith("1."):
            values = {"CONTROLLER": HOST, "KEYSTONE_URL": AUTH_URL.removesuffix("/v3"), "REGION": REGION}
            values |= {"ZUN_URL": f"http://{HOST}:9517", "RABBIT_USER": USER, "RABBIT_PASS": PASSWORD}
            values |= {"ZUN_PASS": PASSWORD, "ZUN_DBPASS": secrets.token_hex(16)}
            assert set(re.findall(r"(?m)(?:^| )([A-Z_]+)=", commands)) == set(values)
            script += [f"{name}={value}" for name, value in values.items()]
            continue
        if heading.startswith("9."):
            script.append(WAIT_FOR_NODE)  # a person reads the next heading meanwhile
        if heading.startswith("10."):
            script += [f"export {name}={value}" for name, value in _credentials(project.account).items()]
        script.append(machine.at_home(commands))
        if heading.startswith("10."):
            script.append(WAIT_UNTIL_GONE)  # the test takes the services and the network away now
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "ZUN_"))}
    done = subprocess.run(
        ["timeout", "--kill-after=5", "500", "bash", "-c", "\n".join(script)],
        env={
            **clean,
            **_credentials(testbed.admin),
            "PATH": f"{openstack.parent}:{clean['PATH']}",
            "MYSQL_SOCKET": f"{FOLDER}/run/mysqld.sock",
            "MACHINE": MACHINE,
            "TEST_ROOT": str(machine.folder),
            "PLACES": ";".join(f"s|{place}|{here}|g" for place, here in machine.places.items()),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=540,  # the one above ends it, and what was said is shown
        check=False,
    )
    said = f"{done.stdout}\n{done.stderr}\n{machine.log()}"
    assert done.returncode == 0, said
    assert "Linux" in done.stdout.rpartition("== 10.")[2], said
    assert "MEMORY_MB" in done.stdout.rpartition("== 9.")[2], said
    assert (machine.folder / "etc/zun.conf").stat().st_mode & 0o007 == 0
