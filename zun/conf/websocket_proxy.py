"""[websocket_proxy]"""

from oslo_config import cfg

GROUP = "websocket_proxy"
OPTIONS = [
    cfg.URIOpt(
        "base_url",
        default="ws://$wsproxy_host:$wsproxy_port/",
        schemes=["ws", "wss"],
        help="What users are given for sessions, without the query; its scheme is the one an Origin has to fit.",
    ),
    cfg.StrOpt("wsproxy_host", default="$my_ip", help="Listening address of the proxy."),
    cfg.PortOpt("wsproxy_port", default=6784, help="Listening port of the proxy."),
    cfg.ListOpt(
        "allowed_origins",
        default=[],
        help="Host names of dashboards whose pages may open sessions, beside the proxy's own.",
    ),
    cfg.BoolOpt("ssl_only", default=False, help="Refuse to start without cert and key: no plain connections."),
    cfg.StrOpt("cert", default="", help="Certificate file of the proxy; with it, connections are TLS only."),
    cfg.StrOpt("key", default="", help="Key file of the proxy, if it is not in cert."),
    cfg.ListOpt(
        "trusted_proxies",
        default=["127.0.0.1", "::1"],
        help="Addresses and subnets of balancers whose X-Forwarded-For and X-Forwarded-Proto are believed.",
    ),
    cfg.BoolOpt("embedded", default=True, help="Run the proxy inside `zun up`; off: by zun-wsproxy, or nowhere."),
    cfg.BoolOpt(
        "docker_tcp",
        default=False,
        help="Dial Docker itself on nodes with [relay]/docker_address, with [docker]/ca_file, cert_file and key_file, which"
        " make this process root on each of them. Off: such nodes have no sessions.",
    ),
    cfg.IntOpt("token_ttl", default=600, min=1, help="Time a session may wait to be opened, seconds."),
    cfg.IntOpt(
        "idle_timeout",
        default=3600,
        min=0,
        help="Time without a byte either way that ends a session, seconds; 0: none.",
    ),
    cfg.IntOpt("session_timeout", default=86400, min=0, help="Longest session, seconds; 0: no limit."),
    cfg.IntOpt("ping_interval", default=20, min=1, help="Time between pings to clients and nodes, seconds."),
    cfg.IntOpt(
        "ping_timeout", default=20, min=1, help="Time without an answer to a ping that ends a session, seconds."
    ),
    cfg.IntOpt("connect_timeout", default=10, min=1, help="Longest wait for a handshake with client or node, seconds."),
    cfg.IntOpt("max_sessions", default=2000, min=1, help="Connections one proxy process takes at once."),
]
