"""[quota]: default limits of a project; -1 = unlimited."""

from oslo_config import cfg

GROUP = "quota"
OPTIONS = [
    cfg.IntOpt("containers", default=40, min=-1, help="Containers."),
    cfg.IntOpt("memory", default=51200, min=-1, help="Memory, MiB."),
    cfg.IntOpt("cpu", default=20, min=-1, help="CPUs."),
    cfg.IntOpt("disk", default=100, min=-1, help="Disk, GiB."),
]
