"""[cri]"""

from oslo_config import cfg

GROUP = "cri"
OPTIONS = [
    cfg.StrOpt(
        "endpoint",
        default="unix:///run/containerd/containerd.sock",
        regex="unix:///.+",
        help="containerd's socket on this host: unix:///path.",
    ),
    cfg.IntOpt(
        "request_timeout",
        default=60,
        min=1,
        help="Longest wait for one call, seconds; making a sandbox may take [cni_daemon]/vif_active_timeout more.",
    ),
    cfg.StrOpt(
        "log_directory",
        default="$state_path/capsule-logs",
        help="Where the engine writes the logs of capsules; those of a capsule are removed with it.",
    ),
    cfg.IntOpt("log_max_size", default=10, min=1, help="Size at which a member's log file is turned over, MiB."),
    cfg.IntOpt(
        "log_max_files", default=3, min=1, help="Log files kept for one member, the one being written included."
    ),
    cfg.StrOpt(
        "cgroup_parent",
        default="/zun",
        help="Control group that those of capsules are made in, with their limits. Empty = the engine's choice; then"
        " members have limits and capsules as a whole and numbers of processes have none.",
    ),
]
