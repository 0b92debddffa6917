"""[relay]: how proxies of interactive sessions reach a node"""

from oslo_config import cfg

GROUP = "relay"
OPTIONS = [
    cfg.StrOpt("listen", default="$my_ip", help="Address that the relay of zun-compute listens on."),
    cfg.PortOpt(
        "port",
        default=0,
        help="Port of the relay; 0 = any free one, which the node tells the proxies. Behind a firewall give a fixed one.",
    ),
    cfg.StrOpt(
        "address",
        help="Host name or address that proxies connect to, and that the certificate has to be for. None: listen, or"
        " my_ip where that is every address.",
    ),
    cfg.StrOpt(
        "docker_address",
        help="host:port of this node's own Docker, which has to demand certificates there. With it there is no relay: proxies"
        " with [websocket_proxy]/docker_tcp dial Docker themselves. Whoever has such a certificate is root on the node.",
    ),
    cfg.StrOpt(
        "ca_file",
        help="CA of the relays' and proxies' certificates. None: one of its own in state_path/relay, where the whole"
        " product is on one machine (transport_url local:// or unix://); else there is no relay.",
    ),
    cfg.StrOpt("cert_file", help="The relay's certificate (extended key usage: server). Read on nodes."),
    cfg.StrOpt("key_file", help="Its key."),
    cfg.StrOpt("client_cert_file", help="The proxy's certificate (extended key usage: client). Read by zun-wsproxy."),
    cfg.StrOpt("client_key_file", help="Its key."),
    cfg.ListOpt(
        "proxy_names",
        default=[],
        help="Names (common or alternative) of which a proxy's certificate has to carry one. Empty: any certificate of"
        " the CA will do, which is right for a CA that signs nothing else.",
    ),
    cfg.IntOpt("max_sessions", default=2000, min=1, help="Most sessions of a node at once; one more is refused."),
    cfg.IntOpt(
        "ping_interval",
        default=20,
        min=1,
        help="Seconds between signs of life that are asked of a session's proxy; one that misses two is gone.",
    ),
    cfg.BoolOpt(
        "end_command",
        default=True,
        help="End the command of a session whose client or proxy vanished, with all it started. False: it goes on.",
    ),
]
