"""[database]"""

from oslo_config import cfg

GROUP = "database"
OPTIONS = [
    cfg.StrOpt(
        "connection",
        default="sqlite:////var/lib/zun/zun.sqlite",
        secret=True,
        help="Database URL: sqlite:////path, mysql://user:password@host/zun or postgresql://user:password@host/zun.",
    ),
    cfg.IntOpt("max_pool_size", default=5, min=1, help="Connections each process keeps (SQLite: those that read)."),
    cfg.IntOpt(
        "max_overflow",
        default=20,
        min=0,
        help="Connections each process opens beyond max_pool_size under load; not for SQLite.",
    ),
    cfg.IntOpt(
        "connection_recycle_time",
        default=3600,
        min=1,
        help="Seconds after which a connection to a server is opened anew; below the server's wait_timeout.",
    ),
    cfg.IntOpt(
        "max_retries",
        default=10,
        min=-1,
        help="At start-up, how often a database server that does not answer is tried again; -1 = for ever.",
    ),
    cfg.IntOpt("retry_interval", default=10, min=1, help="Seconds between these tries."),
]
