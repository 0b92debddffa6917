"""Options of keystoneauth that name an account: any ``auth_type``, those of password and application credential listed."""

from __future__ import annotations

import copy

from keystoneauth1 import loading
from oslo_config import cfg

_PLUGINS = ("password", "v3applicationcredential")


def account() -> list[cfg.Opt]:
    """``auth_type`` and the options of the listed plug-ins, each once; other plug-ins add theirs when named."""
    found: dict[str, cfg.Opt] = {option.dest: option for option in loading.get_auth_common_conf_options()}
    for name in _PLUGINS:
        for option in of_plugin(name):
            found.setdefault(option.dest, option)
    return list(found.values())


def of_plugin(name: str) -> list[cfg.Opt]:
    """Options of one plug-in. None is required: a deployment without Keystone has no account."""
    options = [copy.copy(option) for option in loading.get_auth_plugin_conf_options(name)]
    for option in options:
        option.required = False
    return options


def session() -> list[cfg.Opt]:
    """TLS files and the time-out towards Keystone."""
    used = {"cafile", "certfile", "keyfile", "insecure", "timeout"}
    return [option for option in loading.get_session_conf_options() if option.dest in used]
