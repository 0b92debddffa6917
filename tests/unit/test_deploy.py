"""The files in deploy/ name what exists: options, programs, rules."""

from __future__ import annotations

import configparser
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from zun import conf, policies

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def _uncommented(text: str) -> str:
    """With the options that are only shown."""
    return re.sub(r"(?m)^#(\w+ = )", r"\1", text)


def test_zun_conf_is_read_and_every_option_it_shows_exists(tmp_path: Path) -> None:
    text = _uncommented((DEPLOY / "zun.conf").read_text())
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text.replace("[DEFAULT]", "[default]"))
    known = {(group.lower(), option.dest) for group, options in conf.list_opts() for option in options}
    assert parser.sections()
    shown = {(group.lower(), name) for group in parser.sections() for name in parser[group]}
    assert shown <= known, f"not options: {sorted(shown - known)}"
    file = tmp_path / "zun.conf"
    file.write_text(text.replace("ENCRYPTION_KEY", "k" * 32))
    conf.load([], files=[str(file)])


def test_policy_yaml_changes_nothing_and_lists_every_rule() -> None:
    text = (DEPLOY / "policy.yaml").read_text()
    assert yaml.safe_load(text) is None
    shown = yaml.safe_load("\n".join(line[1:] for line in text.splitlines() if line.startswith('#"')))
    assert shown == {rule.name: rule.check_str for rule in policies.list_rules()}


@pytest.mark.parametrize("unit", sorted(path.name for path in (DEPLOY / "systemd").iterdir()))
def test_units_start_programs_of_the_package(unit: str) -> None:
    text = (DEPLOY / "systemd" / unit).read_text()
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    started = re.search(r"(?m)^ExecStart=/opt/zun/bin/(\S+) --config-file /etc/zun/zun.conf$", text)
    assert started
    assert started[1] in scripts
    assert "Type=notify" in text
