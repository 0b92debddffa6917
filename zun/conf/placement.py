"""[placement]"""

from oslo_config import cfg

GROUP = "placement"
OPTIONS = [
    cfg.StrOpt(
        "driver",
        choices=["local", "openstack"],
        help="Who counts the nodes' resources: tables in our database, or the Placement service. None: openstack"
        " where [keystone_authtoken]/auth_url is set, else local.",
    ),
]
