"""Configuration: one file a group, the original's option names where the meaning is the same.

``load`` reads ``zun.conf`` as oslo.config does and returns a ``ConfigOpts`` of our own (no global state).
"""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from zun.conf import (
    api,
    checks,
    cinder_client,
    cni_daemon,
    compute,
    cri,
    database,
    default,
    docker,
    glance_client,
    keystone_auth,
    keystone_authtoken,
    local,
    metrics,
    network,
    neutron,
    neutron_client,
    notifications,
    pci,
    placement,
    placement_client,
    quota,
    rabbit,
    relay,
    scheduler,
    volume,
    websocket_proxy,
)

GROUPS = (
    default,
    api,
    cinder_client,
    cni_daemon,
    compute,
    cri,
    database,
    docker,
    glance_client,
    keystone_auth,
    keystone_authtoken,
    local,
    metrics,
    network,
    neutron,
    neutron_client,
    notifications,
    pci,
    placement,
    placement_client,
    quota,
    rabbit,
    relay,
    scheduler,
    volume,
    websocket_proxy,
)


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


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Entry point ``oslo.config.opts`` (namespace ``zun.conf``): what the stock tools know our options by."""
    return [(module.GROUP or "DEFAULT", list(module.OPTIONS)) for module in GROUPS]


def load(args: Sequence[str] = (), *, files: Sequence[str] | None = None, prog: str = "zun") -> cfg.ConfigOpts:
    """Read the configuration files and check every value; raises ConfigError with one clear sentence."""
    conf = new()
    try:
        conf(list(args), project="zun", prog=prog, default_config_files=list(files) if files is not None else None)
    except (cfg.Error, ValueError) as error:
        raise ConfigError(" ".join(str(error).split())) from error
    for module in GROUPS:
        for option in module.OPTIONS:
            _read(conf, module.GROUP, option)
    found = checks.problem(conf)
    if found:
        raise ConfigError(f"{found}.")
    return conf


def _read(conf: cfg.ConfigOpts, group: str | None, option: cfg.Opt) -> None:
    """Raises ConfigError naming the option: values are parsed when they are read."""
    section = conf if group is None else conf[group]
    try:
        section[option.dest]
    except (cfg.Error, ValueError) as error:
        reason = " ".join(str(error).split()).rpartition("is not valid: ")[2].rstrip(".")
        kind = getattr(option.type, "type_name", "value").removesuffix(" value")
        raise ConfigError(f"[{group or 'DEFAULT'}]/{option.name}, a {kind}, is not valid: {reason}.") from error
