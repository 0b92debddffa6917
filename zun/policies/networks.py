"""Rules of networks."""

from __future__ import annotations

from zun.policies.base import ADMIN_ROLE, rule

RULES = [
    rule(
        "network:attach_external_network",
        ADMIN_ROLE,
        "Attach an external network that is not shared.",
        "POST /v1/containers",
    ),
    rule("network:create", ADMIN_ROLE, "Make the network of a host.", "POST /v1/networks"),
    rule("network:delete", ADMIN_ROLE, "Remove the network of a host.", "DELETE /v1/networks/{neutron_net_id}"),
]
