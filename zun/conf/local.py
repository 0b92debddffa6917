"""[local]: the embedded services of a single machine."""

from oslo_config import cfg

GROUP = "local"
OPTIONS = [
    cfg.StrOpt("subnet_pool", default="10.208.0.0/12", help="Where embedded networks take their subnets from."),
    cfg.IntOpt("subnet_prefix", default=20, min=8, max=29, help="Size of one embedded network."),
    cfg.IntOpt(
        "network_idle_seconds",
        default=600,
        min=0,
        help="An embedded network without ports is removed from the engine after this.",
    ),
    cfg.IntOpt("mtu", default=0, min=0, help="MTU of embedded networks; 0 = the engine's default."),
    cfg.IntOpt("token_cache_seconds", default=5, min=0, help="How long a checked token is believed."),
]
