"""[network]"""

from oslo_config import cfg

GROUP = "network"
OPTIONS = [
    cfg.StrOpt(
        "driver",
        choices=["local", "kuryr", "direct"],
        help="How containers reach networks: local (bridges of the engine), kuryr (Neutron, bound by the Kuryr plug-in of"
        " Docker) or direct (Neutron, plugged by the agent). None: kuryr where [keystone_authtoken]/auth_url is set,"
        " else local.",
    ),
    cfg.IntOpt(
        "vif_active_timeout",
        default=60,
        min=1,
        help="Seconds until a plugged port has to be ACTIVE in Neutron, else its container is Error (driver direct).",
    ),
    cfg.StrOpt(
        "ovsdb_connection",
        help="Database of Open vSwitch as ovs-vsctl --db takes it (driver direct, and capsules). None: the command's own default, else"
        " tcp:127.0.0.1:6640, which Neutron's agent opens.",
    ),
    cfg.StrOpt("driver_name", default="kuryr", help="Name of Docker's network and IPAM plug-in (driver kuryr)."),
    cfg.IntOpt(
        "idle_seconds",
        default=600,
        min=0,
        help="Seconds after which an engine network without containers is removed, with its subnet pools (driver kuryr).",
    ),
]
