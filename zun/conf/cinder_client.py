"""[cinder_client]: how Cinder is reached."""

from oslo_config import cfg

from zun.conf import client_options

GROUP = "cinder_client"
OPTIONS = [
    *client_options.of("Cinder"),
    cfg.StrOpt("api_version", default="3", help="Accepted and without effect: microversion 3.69 is what is used."),
]
