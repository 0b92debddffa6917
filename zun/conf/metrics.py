"""[metrics]: Prometheus' text format, each process on a port of its own."""

from oslo_config import cfg

GROUP = "metrics"
OPTIONS = [
    cfg.StrOpt("listen", default="127.0.0.1", help="Listening address of /metrics; whoever reaches it may read."),
    cfg.PortOpt("api_port", default=0, min=0, help="Port of /metrics of zun-api, and of `zun up`; 0: none."),
    cfg.PortOpt("compute_port", default=0, min=0, help="Port of /metrics of zun-compute; 0: none."),
    cfg.PortOpt("proxy_port", default=0, min=0, help="Port of /metrics of zun-wsproxy; 0: none."),
    cfg.PortOpt("cni_port", default=0, min=0, help="Port of /metrics of zun-cni-daemon; 0: none."),
]
