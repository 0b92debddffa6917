"""[neutron]"""

from oslo_config import cfg

GROUP = "neutron"
OPTIONS = [
    cfg.StrOpt(
        "agent_host",
        default="$host",
        sample_default="$host",
        help="Name that Neutron's agent on this node is registered under; the node's ports are bound to it.",
    ),
]
