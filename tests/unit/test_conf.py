"""zun.conf with wrong values: one clear sentence each; and the stock oslo tools on our options and rules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from keystoneauth1 import loading

from zun import conf, policies, wiring
from zun.conf import ConfigError, keystone_options
from zun.openstack.auth import options_of

BIN = Path(sys.executable).parent


def _load(folder: Path, text: str) -> object:
    file = folder / "zun.conf"
    file.write_text(text)
    return conf.load([], files=[str(file)])


@pytest.mark.parametrize(
    ("section", "option", "value"),
    [
        ("DEFAULT", "maximum_memory", "2"), ("DEFAULT", "minimum_cpus", "99"), ("DEFAULT", "default_cpu", "99"),
        ("DEFAULT", "default_memory", "3"), ("DEFAULT", "minimum_cpus", "nan"), ("DEFAULT", "default_cpu", "inf"),
        ("DEFAULT", "default_image_driver", "glance"), ("DEFAULT", "image_driver_list", "foo"),
        ("DEFAULT", "host", ""), ("DEFAULT", "host", "a b/%d{}"), ("DEFAULT", "container_driver", "podman"),
        ("DEFAULT", "periodic_interval_max", "soon"), ("DEFAULT", "default_memory_swap", "-2"),
        ("api", "port", "70000"), ("api", "host_ip", ""), ("api", "enable_ssl_api", "maybe"),
        ("api", "enable_ssl_api", "true"), ("api", "max_limit", "0"), ("api", "body_timeout", "nan"),
        ("api", "max_body_bytes", "1e3"), ("database", "connection", "foo://x"), ("database", "connection", ""),
        ("database", "connection", "not a url"), ("database", "connection", "sqlite://"),
        ("local", "subnet_pool", "10.0.0.0/33"), ("local", "subnet_pool", "x"), ("local", "subnet_pool", "fd00::/8"),
        ("local", "subnet_prefix", "8"), ("compute", "unique_container_name_scope", "all"),
        ("compute", "image_low_percent", "85"), ("compute", "image_high_percent", "75"),
        ("compute", "image_high_percent", "101"), ("compute", "disk_free_min_mib", "-1"),
        ("compute", "image_unused_seconds", "-1"), ("compute", "reserve_disk_for_image", "2"),
        ("compute", "cpu_allocation_ratio", "inf"), ("quota", "cpu", "abc"),
        ("compute", "evacuate_after", "210"), ("compute", "fence_seconds", "0"),
        ("quota", "containers", "-2"), ("docker", "execute_timeout", "0"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_one_sentence_that_names_the_option(
    tmp_path: Path, section: str, option: str, value: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, f"[{section}]\n{option} = {value}\n")
    text = str(caught.value)
    assert option in text or option.partition("_")[2] in text, text
    assert "\n" not in text
    assert len(text) < 400
    assert "Traceback" not in text
    assert "LocationInfo" not in text


@pytest.mark.parametrize(
    "text", ["[api\nport = 1\n", "port\n", "[api]\nport = $\n", "[api]\nport = $nowhere\n", "\x00"]
)
def test_a_broken_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_password_in_a_wrong_database_url_is_not_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, "[database]\nconnection = foo://u:hunter2@h/zun\n")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["[", "- a\n", '"host:get_all": "role:member or ("\n', '"a": "rule:nowhere"\n', "\x00"]
)
async def test_a_broken_policy_file_refuses_the_start(tmp_path: Path, text: str) -> None:
    """Defaults may allow what the file forbids, so they are no way out."""
    (tmp_path / "policy.yaml").write_text(text)
    loaded = _load(
        tmp_path, f"[DEFAULT]\nauth_encryption_key = {'x' * 32}\n[api]\npolicy_file = {tmp_path}/policy.yaml\n"
    )
    with pytest.raises(ConfigError) as caught:
        await wiring.run(loaded, api=True, compute=False)
    assert str(caught.value).startswith(f"[api]/policy_file {tmp_path}/policy.yaml cannot be used: ")
    assert "\n" not in str(caught.value)


# -- the stock tools ------------------------------------------------------------------------------


def _tool(name: str, *arguments: str) -> str:
    done = subprocess.run([str(BIN / name), *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_oslo_config_generator_writes_a_sample_of_every_option(tmp_path: Path) -> None:
    sample = _tool("oslo-config-generator", "--namespace", "zun.conf")
    for group, options in conf.list_opts():
        assert f"[{group}]" in sample
        for option in options:
            assert f"\n#{option.dest} =" in sample, option.dest
    assert _load(tmp_path, sample), "the sample itself is a valid zun.conf"


def test_oslo_config_validator_knows_every_option(tmp_path: Path) -> None:
    file = tmp_path / "zun.conf"
    file.write_text("[api]\nport = 9517\n[compute]\nreaper_interval = 5\n")
    _tool("oslo-config-validator", "--namespace", "zun.conf", "--input-file", str(file))


def test_oslopolicy_sample_generator_writes_every_rule(tmp_path: Path) -> None:
    sample = tmp_path / "policy.yaml"
    _tool("oslopolicy-sample-generator", "--namespace", "zun", "--output-file", str(sample))
    lines = [line[1:] for line in sample.read_text().splitlines() if line.startswith('#"')]
    rules = yaml.safe_load("\n".join(lines))
    assert rules == {rule.name: rule.check_str for rule in policies.list_rules()}


def test_keystones_options_are_keystoneauths_own() -> None:
    """They are written down in ours, so that keystoneauth is not loaded where there is no Keystone."""
    theirs = {option.dest: option for option in loading.get_auth_common_conf_options()}
    for name in ("password", "v3applicationcredential"):
        theirs |= {option.dest: option for option in options_of(name) if option.dest not in theirs}
    used = {option.dest for option in keystone_options.session()}
    theirs |= {option.dest: option for option in loading.get_session_conf_options() if option.dest in used}
    ours = {option.dest: option for option in [*keystone_options.account(), *keystone_options.session()]}
    assert list(ours) == list(theirs)
    for dest, option in theirs.items():
        assert ours[dest] == option  # the same option may be registered again
        assert (ours[dest].help, ours[dest].secret) == (option.help, option.secret)


def test_what_is_not_used_is_not_loaded() -> None:
    """Each start of a product would pay for it, and each command."""
    unused = ("keystoneauth1", "requests", "sqlalchemy.dialects.mysql", "sqlalchemy.dialects.postgresql", "alembic")
    code = f"import sys, zun.parts, zun.wiring; print([name for name in {unused} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
