"""[network]"""

from oslo_config import cfg

GROUP = "network"
OPTIONS = [
    cfg.StrOpt("driver", default="local", choices=["local"], help="Network driver."),
]
