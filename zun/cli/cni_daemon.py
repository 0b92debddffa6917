"""zun-cni-daemon: the node's CNI daemon, and the installation of its plug-in.

zun-cni-daemon [--config-file FILE]
zun-cni-daemon install [--bin-dir DIR] [--conf-dir DIR] [--config-file FILE]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from zun.cli import systemd
from zun.cli.problem import Problem, told

PROG = "zun-cni-daemon"


def main() -> None:
    """The console script."""
    with told():
        if sys.argv[1:2] == ["install"]:
            _install(sys.argv[2:])
        else:
            _serve(_conf(sys.argv[1:]))


def _serve(conf: Any) -> None:
    import uvloop

    from zun.cli.process import set_up_logs
    from zun.cni import daemon

    set_up_logs(conf)
    try:
        uvloop.run(daemon.run(conf, lambda: systemd.notify("READY=1")))
    finally:
        systemd.notify("STOPPING=1")


def _install(arguments: list[str]) -> None:
    from zun.cni import install

    parser = argparse.ArgumentParser(prog=f"{PROG} install", description="Install the CNI plug-in for containerd.")
    parser.add_argument("--bin-dir", type=Path, help="containerd's folder of CNI plug-ins (default: the one in use)")
    parser.add_argument("--conf-dir", type=Path, help="its folder of CNI configurations (default: as in zun.conf)")
    chosen, rest = parser.parse_known_args(arguments)
    conf = _conf(rest)
    plugins = (chosen.bin_dir or install.bin_dir()).absolute()
    config = Path(conf.cni_daemon.zun_cni_config_file).absolute()
    if chosen.conf_dir is not None:
        config = chosen.conf_dir.absolute() / config.name
    try:
        hints = install.install(conf, plugins, config)
    except install.InstallError as error:
        raise Problem(str(error)) from error
    sys.stdout.write(f"Installed {plugins / install.NAME} and {config}.\n")
    for hint in hints:
        sys.stderr.write(f"{hint}\n")


def _conf(arguments: list[str]) -> Any:
    from zun import conf as configuration

    return configuration.load(arguments, prog=PROG)
