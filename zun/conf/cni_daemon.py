"""[cni_daemon]"""

from oslo_config import cfg

GROUP = "cni_daemon"
OPTIONS = [
    cfg.StrOpt(
        "socket",
        help="Unix socket that the CNI daemon listens on, for root only. None: cni_daemon_host and cni_daemon_port.",
    ),
    cfg.StrOpt("cni_daemon_host", default="127.0.0.1", help="Address of the CNI daemon; a loopback address."),
    cfg.PortOpt("cni_daemon_port", default=9036, min=1, help="Port of the CNI daemon."),
    cfg.IntOpt(
        "vif_active_timeout",
        default=60,
        min=1,
        help="Seconds until a capsule's ports have to be ACTIVE in Neutron, else its sandbox fails.",
    ),
    cfg.StrOpt(
        "zun_cni_config_file",
        default="/etc/cni/net.d/10-zun-cni.conf",
        help="The network configuration for containerd that zun-cni-daemon install writes.",
    ),
]
