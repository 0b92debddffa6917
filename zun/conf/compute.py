"""[compute]"""

from oslo_config import cfg

GROUP = "compute"
OPTIONS = [
    cfg.StrOpt("topic", default="zun-compute", help="What the names of queues in RabbitMQ begin with."),
    cfg.StrOpt(
        "unique_container_name_scope",
        default="",
        choices=["", "project", "global"],
        help="Scope of the unique-name check.",
    ),
    cfg.BoolOpt("resume_container_state", default=False, help="At start-up start containers that were Running before."),
    cfg.BoolOpt(
        "remount_container_volume",
        default=True,
        help="At start-up reboot containers that run without their volumes (the machine was rebooted).",
    ),
    cfg.FloatOpt("reserve_disk_for_image", default=0.2, min=0, max=1, help="Share of the disk kept for images."),
    cfg.IntOpt(
        "image_unused_seconds",
        default=0,
        min=0,
        help="Images that this node pulled for containers and that none has used for so long may be removed when its"
        " disk fills up; 0 = none is. Only images pulled while this is set are known.",
    ),
    cfg.IntOpt(
        "image_high_percent", default=85, min=1, max=100, help="Use of the engine's disk from which images are removed."
    ),
    cfg.IntOpt(
        "image_low_percent", default=75, min=0, max=99, help="Use of the engine's disk at which removing images ends."
    ),
    cfg.IntOpt(
        "disk_free_min_mib",
        default=1024,
        min=0,
        help="Free room of an engine's disk, MiB, below which the host takes no new containers (DISK_PRESSURE); 0 = it"
        " always does.",
    ),
    cfg.BoolOpt("enable_cpu_pinning", default=False, help="Node accepts cpu_policy dedicated."),
    cfg.IntOpt(
        "resource_provider_association_refresh",
        default=300,
        min=0,
        help="Seconds after which the node's provider is compared with what Placement has; 0 = never. Changes of the"
        " node are written at once.",
    ),
    cfg.BoolOpt(
        "host_shared_with_nova",
        default=False,
        help="Use the resource provider that Nova made for this host (named as [DEFAULT]/host). Nova counts and"
        " writes its inventories; ours are not written.",
    ),
    cfg.IntOpt("reserved_host_disk_mb", default=0, min=0, help="Disk kept for the host, MB."),
    cfg.IntOpt("reserved_host_memory_mb", default=512, min=0, help="Memory kept for the host, MB."),
    cfg.IntOpt("reserved_host_cpus", default=0, min=0, help="CPUs kept for the host."),
    cfg.FloatOpt("cpu_allocation_ratio", min=0.0, help="CPU overcommit; none or 0 = leave what Placement has."),
    cfg.FloatOpt("ram_allocation_ratio", min=0.0, help="Memory overcommit; none or 0 = leave what Placement has."),
    cfg.FloatOpt("disk_allocation_ratio", min=0.0, help="Disk overcommit; none or 0 = leave what Placement has."),
    cfg.FloatOpt("initial_cpu_allocation_ratio", default=16.0, min=0.0, help="CPU overcommit of a new node."),
    cfg.FloatOpt("initial_ram_allocation_ratio", default=1.5, min=0.0, help="Memory overcommit of a new node."),
    cfg.FloatOpt("initial_disk_allocation_ratio", default=1.0, min=0.0, help="Disk overcommit of a new node."),
    cfg.BoolOpt(
        "fractional_cpu", default=False, help="Count CPU in thousandths (CUSTOM_ZUN_MILLICPU) instead of whole VCPU."
    ),
    cfg.IntOpt("pids_limit", default=4096, min=0, help="Most processes in one container; 0 = no limit."),
    cfg.IntOpt(
        "create_deadline", default=1800, min=1, help="Longest life of a create or rebuild, seconds; then Error."
    ),
    cfg.IntOpt(
        "capsule_init_timeout",
        default=3600,
        min=1,
        help="Longest time all init containers of a capsule may take together, seconds; then the capsule is Error."
        " Its create may live so much longer.",
    ),
    cfg.IntOpt("operation_deadline", default=600, min=1, help="Longest life of any other operation, seconds."),
    cfg.IntOpt("reaper_interval", default=15, min=1, help="Seconds between looks for operations past their deadline."),
    cfg.IntOpt(
        "abandoned_volume_seconds",
        default=300,
        min=1,
        help="Age after which a volume made for a container that was never recorded is deleted, seconds.",
    ),
    cfg.IntOpt(
        "orphan_grace_seconds",
        default=30,
        min=0,
        help="How long something of ours without a record is watched before the sync removes it, seconds.",
    ),
    cfg.IntOpt(
        "sweep_interval", default=5, min=1, help="Seconds between looks for operations whose doorbell was lost."
    ),
    cfg.IntOpt("max_parallel_operations", default=32, min=1, help="Operations one node works on at once."),
    cfg.IntOpt("retry_attempts", default=3, min=1, help="Tries of an operation whose fault may pass."),
    cfg.IntOpt("action_retention_days", default=30, min=0, help="Days that actions of deleted containers are kept."),
    cfg.BoolOpt(
        "free_on_lost_host",
        default=True,
        help="A container deleted while its host is down frees quota and allocation at once, and the host removes it"
        " when it is back; off: it frees them then.",
    ),
    cfg.IntOpt(
        "evacuate_after",
        default=0,
        min=0,
        help="Seconds of a node's silence after which its containers with auto_heal are started on other nodes; 0 ="
        " never. Has to be more than [DEFAULT]/service_down_time and fence_seconds together, and the same on all"
        " hosts.",
    ),
    cfg.BoolOpt(
        "fence",
        default=True,
        help="With evacuate_after: a node that could not report for [DEFAULT]/service_down_time stops the containers"
        " that others will start. Off: its containers are moved only once an administrator declared it down"
        " (force_down).",
    ),
    cfg.IntOpt(
        "fence_seconds", default=30, min=1, help="Seconds in which a node that is cut off has stopped its containers."
    ),
    cfg.IntOpt(
        "evacuation_interval", default=10, min=1, help="Seconds between looks for nodes that are lost, and for moves."
    ),
    cfg.IntOpt(
        "heal_attempts",
        default=3,
        min=1,
        help="Tries of one healing before a container with auto_heal is Error; and how often within an hour one is made"
        " anew whose health check fails.",
    ),
]
