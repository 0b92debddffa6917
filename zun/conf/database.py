"""[database]"""

from oslo_config import cfg

GROUP = "database"
OPTIONS = [
    cfg.StrOpt("connection", default="sqlite:////var/lib/zun/zun.sqlite", secret=True, help="Database URL."),
    cfg.IntOpt("max_pool_size", default=5, min=1, help="Connections for reading."),
]
