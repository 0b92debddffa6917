"""Options of keystoneauth that name an account: any ``auth_type``, those of password and application credential listed.

Written down here, a test compares them with keystoneauth's own: to load that, with requests, would be a good part of
the start of a product without Keystone.
"""

from __future__ import annotations

import copy
from typing import Any

from oslo_config import cfg


def _opt(name: str, help_text: str, *former: str, **more: Any) -> cfg.Opt:
    text: Any = str  # as keystoneauth has it: the same option may be registered again
    return cfg.Opt(name, type=text, help=help_text, deprecated_opts=[cfg.DeprecatedOpt(one) for one in former], **more)


_SCOPES = "It will be used for both the user and project domain in v3 and ignored in v2 authentication."
_ACCOUNT = (
    _opt("auth_type", "Authentication type to load", "auth_plugin"),
    _opt("auth_section", "Config Section from which to load plugin specific options"),
    _opt("auth-url", "Authentication URL"),
    _opt("system-scope", "Scope for system operations"),
    _opt("domain-id", "Domain ID to scope to"),
    _opt("domain-name", "Domain name to scope to"),
    _opt("project-id", "Project ID to scope to", "tenant-id"),
    _opt("project-name", "Project name to scope to", "tenant-name"),
    _opt("project-domain-id", "Domain ID containing project"),
    _opt("project-domain-name", "Domain name containing project"),
    _opt("trust-id", "ID of the trust to use as a trustee use"),
    _opt("default-domain-id", f"Optional domain ID to use with v3 and v2 parameters. {_SCOPES}"),
    _opt("default-domain-name", f"Optional domain name to use with v3 API and v2 parameters. {_SCOPES}"),
    _opt("user-id", "User id"),
    _opt("username", "Username", "user-name"),
    _opt("user-domain-id", "User's domain id"),
    _opt("user-domain-name", "User's domain name"),
    _opt("password", "User's password", secret=True),
    _opt("application_credential_secret", "Application credential auth secret", secret=True),
    _opt("application_credential_id", "Application credential ID"),
    _opt("application_credential_name", "Application credential name"),
)
_SESSION = (
    cfg.StrOpt("cafile", help="PEM encoded Certificate Authority to use when verifying HTTPs connections."),
    cfg.StrOpt("certfile", help="PEM encoded client certificate cert file"),
    cfg.StrOpt("keyfile", help="PEM encoded client certificate key file"),
    cfg.BoolOpt("insecure", default=False, help="Verify HTTPS connections."),
    cfg.FloatOpt("timeout", help="Timeout value for http requests"),
)


def account() -> list[cfg.Opt]:
    """``auth_type`` and the options of the listed plug-ins, each once; other plug-ins add theirs when named."""
    return [copy.copy(option) for option in _ACCOUNT]


def session() -> list[cfg.Opt]:
    """TLS files and the time-out towards Keystone."""
    return [copy.copy(option) for option in _SESSION]
