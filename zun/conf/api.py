"""[api]"""

from oslo_config import cfg

GROUP = "api"
OPTIONS = [
    cfg.PortOpt("port", default=9517, help="Listening port."),
    cfg.StrOpt("host_ip", default="127.0.0.1", help="Listening address."),
    cfg.BoolOpt("enable_ssl_api", default=False, help="Serve TLS."),
    cfg.StrOpt("ssl_cert_file", help="Certificate, when enable_ssl_api."),
    cfg.StrOpt("ssl_key_file", help="Private key, when enable_ssl_api."),
    cfg.ListOpt(
        "trusted_proxies",
        default=["127.0.0.1", "::1"],
        help="Addresses and subnets of balancers whose X-Forwarded-For and X-Forwarded-Proto are believed.",
    ),
    cfg.URIOpt(
        "public_endpoint",
        schemes=["http", "https"],
        help="Scheme, host and port of the links in answers, such as https://containers.example.org:9517; none: as the"
        " request was addressed.",
    ),
    cfg.IntOpt("max_limit", default=1000, min=1, help="Largest and default page of lists."),
    cfg.IntOpt("max_body_bytes", default=1024 * 1024, min=1024, help="Largest request body, bytes."),
    cfg.IntOpt(
        "max_archive_bytes",
        default=64 * 1024 * 1024,
        min=1024,
        help="Largest tar archive copied into or out of a container, bytes.",
    ),
    cfg.IntOpt("parallel_archives", default=4, min=1, help="Archives one API process takes in at once."),
    cfg.IntOpt(
        "event_listeners",
        default=500,
        min=0,
        help="Listeners of GET /v1/events one API process serves at once; 0: none.",
    ),
    cfg.FloatOpt(
        "event_poll_interval",
        default=0.5,
        min=0.01,
        help="Longest time between two looks for new status events, while anyone listens, seconds; what the same process"
        " writes, as where API and agent are one, is seen at once.",
    ),
    cfg.IntOpt(
        "event_retention",
        default=86400,
        min=60,
        help="Age up to which status events are kept, for listeners that come back, seconds.",
    ),
    cfg.IntOpt(
        "log_streams",
        default=200,
        min=0,
        help="Streams of GET /v1/containers/{container_ident}/logs/stream one API process serves at once; 0: none.",
    ),
    cfg.FloatOpt(
        "stream_keepalive",
        default=15.0,
        min=0.1,
        help="Silence on a stream of events or of a log that is broken, seconds.",
    ),
    cfg.FloatOpt(
        "stream_seconds",
        default=3600.0,
        min=0,
        help="Longest life of a stream of events or of a log, seconds; its client comes again. 0: no limit.",
    ),
    cfg.FloatOpt("body_timeout", default=60.0, min=0.1, help="Longest time for the body of a request, seconds."),
    cfg.IntOpt(
        "idempotency_key_ttl",
        default=24 * 3600,
        min=60,
        max=30 * 24 * 3600,
        help="How long the answer to a create with an Idempotency-Key is kept, seconds.",
    ),
    cfg.FloatOpt(
        "max_wait",
        default=60.0,
        min=0,
        max=3600,
        help="Longest time that a request with wait_for is held, seconds; balancers in between have to wait longer.",
    ),
    cfg.FloatOpt(
        "wait_interval",
        default=0.5,
        min=0.02,
        max=60,
        help="Longest time between two looks of an API process for all its requests with wait_for, seconds; what the same"
        " process writes, as where API and agent are one, is seen at once.",
    ),
    cfg.BoolOpt("enable_image_validation", default=False, help="Ask whether the image exists before creating."),
    cfg.StrOpt(
        "healthcheck_disable_file",
        default="/etc/zun/healthcheck_disable",
        help="While this file exists /healthcheck answers 503.",
    ),
    cfg.ListOpt("cors_allowed_origins", default=[], help="Origins browsers may call the API from."),
    cfg.StrOpt("policy_file", default="policy.yaml", help="Policy overrides, searched beside zun.conf."),
]
