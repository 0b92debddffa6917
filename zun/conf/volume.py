"""[volume]"""

from oslo_config import cfg

GROUP = "volume"
OPTIONS = [
    cfg.ListOpt(
        "driver_list",
        deprecated_name="driver",
        help="Volume drivers; the first makes volumes for mounts with a size. None: cinder,local where"
        " [keystone_authtoken]/auth_url is set, else local.",
    ),
    cfg.StrOpt("volume_dir", default="$state_path/mnt", help="Where volumes are mounted on the node."),
    cfg.StrOpt("local_dir", default="$state_path/volumes", help="Where local volumes keep their data."),
    cfg.StrOpt("fstype", default="ext4", help="File system made on empty volumes."),
    cfg.BoolOpt("use_multipath", default=False, help="Connect Cinder volumes over several paths (multipathd)."),
    cfg.IntOpt(
        "timeout_wait_volume_available",
        default=60,
        min=1,
        help="Longest wait for a volume to become available, seconds.",
    ),
    cfg.IntOpt(
        "timeout_wait_volume_deleted",
        default=60,
        min=1,
        help="Longest wait for an auto-removed volume to be gone, seconds.",
    ),
    cfg.IntOpt(
        "timeout_connect",
        default=180,
        min=1,
        help="Longest time os-brick may take to connect or disconnect a Cinder volume, seconds.",
    ),
]
