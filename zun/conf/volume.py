"""[volume]"""

from oslo_config import cfg

GROUP = "volume"
OPTIONS = [
    cfg.ListOpt("driver_list", default=["local"], help="Volume drivers."),
    cfg.StrOpt("volume_dir", default="$state_path/mnt", help="Where volumes are mounted on the node."),
    cfg.StrOpt("local_dir", default="$state_path/volumes", help="Where local volumes keep their data."),
    cfg.StrOpt("fstype", default="ext4", help="File system made on empty volumes."),
]
