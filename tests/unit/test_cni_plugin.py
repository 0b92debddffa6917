"""The CNI plug-in by itself, and its installation."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from zun import conf as zun_conf
from zun.cni import install, plugin
from zun.cni.call import Call, CniError, parse, version_of
from zun.conf import ConfigError

UUID = "6b8a2f0e-6b43-4b2b-9d5b-0d0f4e0a9a11"
CONFIG = {"cniVersion": "1.0.0", "name": "zun", "type": "zun-cni"}
HEADERS = {
    "CNI-CONTAINERID": "abc",
    "CNI-IFNAME": "eth0",
    "CNI-NETNS": "/run/netns/x",
    "CNI-ARGS": f"IgnoreUnknown=1;K8S_POD_UID={UUID};K8S_POD_NAME=web",
}


@pytest.fixture
def conf(tmp_path: Path) -> Any:
    file = tmp_path / "zun.conf"
    file.write_text(f"[DEFAULT]\nstate_path = {tmp_path}/state\n[cni_daemon]\nsocket = {tmp_path}/cni.sock\n")
    return zun_conf.load(files=[str(file)])


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "loopback").touch()
    return folder


def started(path: Path, config: bytes = b"", **env: str) -> tuple[int, str]:
    done = subprocess.run([str(path)], input=config, capture_output=True, env=env, timeout=60)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout.decode()


@pytest.mark.parametrize(
    ("config", "version"),
    [
        (b'{"cniVersion": "0.4.0"}', "0.4.0"),
        (b'{"name":"x","cniVersion":"1.0.0","a":1}', "1.0.0"),
        (b'{ "cniVersion"\t:\n "0.4.0" }', "0.4.0"),
        (b"", "1.0.0"),
        (b'{"cniVersion": 7}', "1.0.0"),
        (b'{"cniVersion": "\\"}', "1.0.0"),
        (b'{"cniVersion": "1.0.0\xff"}', "1.0.0"),
        (b'{"cniVersion": "' + b"1" * 99 + b'"}', "1.0.0"),
    ],
)
def test_the_version_asked_for_is_echoed(conf: Any, plugins: Path, config: bytes, version: str) -> None:
    install.install(conf, plugins, plugins.parent / "net.d" / "10-zun.conf")
    code, text = started(plugins / "zun-cni", config, CNI_COMMAND="VERSION")
    assert code == 0
    assert json.loads(text) == {"cniVersion": version, "supportedVersions": ["0.4.0", "1.0.0"]}
    code, text = started(plugins / "zun-cni", config, CNI_COMMAND="nonsense")
    assert code == 1
    assert json.loads(text)["cniVersion"] == version


def test_errors_are_json_whatever_they_contain(capsys: pytest.CaptureFixture[str]) -> None:
    assert plugin.fail(b"", 11, 'a "quoted" \\ back\n\x00 é') == 1
    assert json.loads(capsys.readouterr().out) == {
        "cniVersion": "1.0.0",
        "code": 11,
        "msg": 'a "quoted" \\ back\n\x00 é',
    }


def test_it_imports_nothing_but_what_is_built_in(conf: Any, plugins: Path) -> None:
    install.install(conf, plugins, plugins.parent / "net.d" / "10-zun.conf")
    interpreter = (plugins / "zun-cni").read_text().split("\n")[0].removeprefix("#!").removesuffix(" -IS")
    tell = "import sys; exec(open(sys.argv[1]).read().replace('__main__', 'x')); ask"
    names = "; print(sorted(m for m in sys.modules if getattr(sys.modules[m], '__file__', '') ))"
    done = subprocess.run([interpreter, "-IS", "-c", tell + names, str(plugins / "zun-cni")], capture_output=True)
    loaded = re.findall(r"'([^']+)'", done.stdout.decode())
    assert done.returncode == 0, done.stderr
    assert not {"json", "socket", "re", "http", "site", "argparse", "logging"} & set(loaded)


def test_the_installed_file_names_an_absolute_interpreter_and_the_daemon(conf: Any, plugins: Path) -> None:
    config = plugins.parent / "net.d" / "10-zun.conf"
    assert install.install(conf, plugins, config) == []
    assert install.install(conf, plugins, config) == []
    text = (plugins / "zun-cni").read_text()
    assert text.startswith(f"#!{os.path.realpath(sys.executable)} -IS\n")
    assert f"ADDRESS = '{conf.cni_daemon.socket}'\nKEY_FILE = ''\nTIMEOUT = 600\n" in text
    assert stat.S_IMODE((plugins / "zun-cni").stat().st_mode) == 0o755
    assert json.loads(config.read_text()) == CONFIG
    assert sorted(path.name for path in plugins.iterdir()) == ["loopback", "zun-cni"]
    assert [path.name for path in config.parent.iterdir()] == ["10-zun.conf"]


def test_on_a_port_the_plug_in_reads_a_key_that_only_root_can_read(tmp_path: Path, plugins: Path) -> None:
    file = tmp_path / "zun.conf"
    file.write_text(f"[DEFAULT]\nstate_path = {tmp_path}/state\n[cni_daemon]\nvif_active_timeout = 900\n")
    install.install(zun_conf.load(files=[str(file)]), plugins, tmp_path / "10-zun.conflist")
    text = (plugins / "zun-cni").read_text()
    key = tmp_path / "state" / "cni" / "key"
    assert f"ADDRESS = '127.0.0.1:9036'\nKEY_FILE = '{key}'\nTIMEOUT = 960\n" in text
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(key.read_text()) > 40
    body = json.loads((tmp_path / "10-zun.conflist").read_text())
    assert body == {"cniVersion": "1.0.0", "name": "zun", "plugins": [{"type": "zun-cni"}]}


def test_another_configuration_that_comes_first_is_told(conf: Any, plugins: Path, tmp_path: Path) -> None:
    (tmp_path / "05-other.conflist").touch()
    [hint] = install.install(conf, plugins, tmp_path / "10-zun.conf")
    assert "05-other.conflist: remove it" in hint


def test_loopback_is_linked_from_where_it_is_and_missed_where_it_is_not(
    conf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "usr"
    elsewhere.mkdir()
    monkeypatch.setattr(install, "BIN_DIRS", (elsewhere,))
    with pytest.raises(install.InstallError, match="containernetworking-plugins"):
        install.install(conf, tmp_path / "bin", tmp_path / "10-zun.conf")
    (elsewhere / "loopback").touch()
    install.install(conf, tmp_path / "bin", tmp_path / "10-zun.conf")
    assert (tmp_path / "bin" / "loopback").resolve() == elsewhere / "loopback"


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("cni_daemon_host = 0.0.0.0", "no loopback address"),
        ("cni_daemon_host = 192.0.2.1", "no loopback address"),
        ("cni_daemon_host = localhost", "no loopback address"),
        ("cni_daemon_port = 0", "cni_daemon_port"),
        ("socket = cni.sock", "absolute path"),
        (f"socket = /{'x' * 107}", "at most 107 bytes"),
        ("vif_active_timeout = 0", "vif_active_timeout"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, option: str, told: str) -> None:
    file = tmp_path / "zun.conf"
    file.write_text(f"[cni_daemon]\n{option}\n")
    with pytest.raises(ConfigError, match=told):
        zun_conf.load(files=[str(file)])


def test_a_call_is_read() -> None:
    found = parse(HEADERS, json.dumps(CONFIG).encode(), needs_namespace=True)
    assert found == Call("1.0.0", "zun", UUID, "abc", "/run/netns/x")


def test_a_del_needs_neither_namespace_nor_capsule() -> None:
    headers = {**HEADERS, "CNI-NETNS": "", "CNI-ARGS": "K8S_POD_UID=7"}
    assert parse(headers, json.dumps(CONFIG).encode(), needs_namespace=False) == Call("1.0.0", "zun", "", "abc", "")
    with pytest.raises(CniError, match="CNI_NETNS"):
        parse(headers, json.dumps(CONFIG).encode(), needs_namespace=True)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b'{"cniVersion": "9.9.9"}', b"[" * 99999])
def test_an_error_has_a_version_though_none_can_be_read(body: bytes) -> None:
    assert version_of(body) == "1.0.0"
