"""[oslo_messaging_rabbit]: the bus over RabbitMQ. Each may also stand in the query of ``transport_url``."""

from oslo_config import cfg

GROUP = "oslo_messaging_rabbit"
OPTIONS = [
    cfg.BoolOpt("ssl", default=False, help="Connect with TLS; certificate and host name are verified."),
    cfg.StrOpt("ssl_ca_file", default="", help="Certificate authority of the broker; empty = those of the system."),
    cfg.StrOpt("ssl_cert_file", default="", help="Client certificate."),
    cfg.StrOpt("ssl_key_file", default="", help="Key of the client certificate."),
    cfg.IntOpt(
        "heartbeat_timeout_threshold",
        default=60,
        min=0,
        help="Seconds of silence after which a broker is given up; 0 = never.",
    ),
    cfg.FloatOpt(
        "rabbit_retry_interval",
        default=1.0,
        min=0.01,
        help="Seconds before a new attempt to connect; doubled each time, with jitter.",
    ),
    cfg.FloatOpt("rabbit_interval_max", default=30.0, min=0.01, help="Longest pause between attempts, seconds."),
]
