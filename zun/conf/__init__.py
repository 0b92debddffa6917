"""Configuration: one file a group, the original's option names where the meaning is the same.

``load`` reads ``zun.conf`` as oslo.config does and returns a ``ConfigOpts`` of our own (no global state).
"""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from zun.conf import api, compute, database, default, docker, local, network, quota, scheduler, volume

GROUPS = (default, api, compute, database, docker, local, network, quota, scheduler, volume)


class ConfigError(Exception):
    """A wrong option; the message says which and what is allowed."""


def new() -> cfg.ConfigOpts:
    """All options registered, nothing read yet."""
    from oslo_log import log

    conf = cfg.ConfigOpts()
    log.register_options(conf)
    for module in GROUPS:
        conf.register_opts(module.OPTIONS, group=module.GROUP)
    return conf


def load(args: Sequence[str] = (), *, files: Sequence[str] | None = None, prog: str = "zun") -> cfg.ConfigOpts:
    """Read the configuration files and check every value; raises ConfigError with one clear sentence."""
    conf = new()
    try:
        conf(list(args), project="zun", prog=prog, default_config_files=list(files) if files is not None else None)
        for module in GROUPS:
            for option in module.OPTIONS:
                section = conf if module.GROUP is None else conf[module.GROUP]
                section[option.dest]
    except (cfg.Error, ValueError) as error:
        raise ConfigError(" ".join(str(error).split())) from error
    return conf
