"""Does our account in Keystone work: it logs in, it may check tokens, other services take it for a service?"""

from __future__ import annotations

import asyncio
from typing import Any


async def problem(conf: Any) -> tuple[bool, str] | None:
    """None when all is well; else (may it be lived with, a sentence). Answers within seconds."""
    from zun.conf import ConfigError
    from zun.domain.errors import ServiceUnavailable
    from zun.openstack.cloud import OpenStack

    try:
        cloud = OpenStack(conf)
    except ConfigError as error:
        return False, f"{error}."
    try:
        return await _look(conf, cloud)
    except ServiceUnavailable as error:
        return False, error.message
    finally:
        await cloud.close()


async def _look(conf: Any, cloud: Any) -> tuple[bool, str] | None:
    from zun.domain.clock import SystemClock
    from zun.domain.errors import ServiceUnavailable
    from zun.identity.keystone import KeystoneIdentity

    try:
        async with asyncio.timeout(conf.keystone_authtoken.timeout or 20):
            own = await cloud.auth.token()
    except TimeoutError:
        raise ServiceUnavailable("Keystone", "it does not answer the log-in of our account") from None
    caller = await KeystoneIdentity(cloud.keystone, conf, SystemClock()).authenticate(own)
    if caller is None:
        return False, "Keystone does not know the token it has just given our account; see [keystone_authtoken]."
    if caller.project_id is None and caller.system_scope is None:
        return False, f"Our account {caller.user_name} logs in without a project; set project_name."
    wanted = {role.lower() for role in conf.keystone_authtoken.service_token_roles}
    if not wanted & {role.lower() for role in caller.roles}:
        return True, (
            f"Our account {caller.user_name} has none of the roles {', '.join(sorted(wanted))}: Cinder and Neutron may"
            " refuse what it does for users whose token has ended."
        )
    if not conf.keystone_authtoken.www_authenticate_uri:
        return True, (
            "[keystone_authtoken]/www_authenticate_uri is not set; callers without a token are told"
            f" {conf.keystone_authtoken.auth_url}."
        )
    return None
