"""[DEFAULT]"""

import socket

from oslo_config import cfg

GROUP = None
OPTIONS = [
    cfg.StrOpt(
        "default_availability_zone",
        default="nova",
        help="Zone a node registers under, and that stands in for an empty one.",
    ),
    cfg.StrOpt(
        "floating_cpu_set",
        default="",
        help="CPUs such as 1-4,6 that are not pinned. With [compute]/enable_cpu_pinning, containers without CPUs of"
        " their own run on these only; empty = on all.",
    ),
    cfg.StrOpt("default_schedule_zone", help="Zone asked for when a request names none; none = any."),
    cfg.StrOpt("container_driver", default="docker", choices=["docker", "simulated"], help="Runtime for containers."),
    cfg.StrOpt("container_runtime", default="runc", help="OCI runtime when the request names none."),
    cfg.StrOpt(
        "capsule_driver",
        default="cri",
        choices=["cri", "docker"],
        help="Engine for capsules: cri (containerd) or docker (a pause container whose namespaces the others share).",
    ),
    cfg.StrOpt(
        "sandbox_image",
        default="kubernetes/pause",
        help="Image of the pause container (capsule_driver docker); pulled when it is absent.",
    ),
    cfg.IntOpt(
        "default_memory_swap",
        default=0,
        min=-1,
        help="Swap a container may use beyond its memory, MiB; 0 = none, -1 = unlimited.",
    ),
    cfg.IntOpt("minimum_memory", default=4, min=0, help="Least memory in requests, MiB."),
    cfg.IntOpt("maximum_memory", default=8192, min=1, help="Most memory in requests, MiB."),
    cfg.FloatOpt("minimum_cpus", default=0.1, min=0, help="Least cpu in requests, cores."),
    cfg.FloatOpt("maximum_cpus", default=16.0, min=0, help="Most cpu in requests, cores."),
    cfg.IntOpt("minimum_disk", default=1, min=0, help="Least disk in requests, GiB."),
    cfg.IntOpt("maximum_disk", default=160, min=1, help="Most disk in requests, GiB."),
    cfg.IntOpt("default_memory", default=512, min=0, help="Memory when the request gives none, MiB; 0 = no limit."),
    cfg.FloatOpt("default_cpu", default=1.0, min=0, help="Cores when the request gives none; 0 = no limit."),
    cfg.IntOpt(
        "default_disk",
        default=10,
        min=0,
        help="Disk when the request gives none and the node can limit it, GiB; 0 = no limit.",
    ),
    cfg.ListOpt(
        "image_driver_list",
        help="Image drivers that requests may name. None: docker,glance where [keystone_authtoken]/auth_url is set,"
        " else docker.",
    ),
    cfg.StrOpt("default_image_driver", default="docker", help="Image driver when the request names none."),
    cfg.StrOpt("my_ip", default="127.0.0.1", help="Management address of this host."),
    cfg.StrOpt("my_block_storage_ip", default="$my_ip", help="Address of this host for connections to volumes."),
    cfg.StrOpt(
        "host", default=socket.gethostname(), sample_default="<host name>", help="Name the node registers under."
    ),
    cfg.StrOpt("state_path", default="/var/lib/zun", help="Root of run-time state."),
    cfg.IntOpt("periodic_interval_max", default=60, min=1, help="Longest pause between inventory runs, seconds."),
    cfg.IntOpt(
        "service_down_time", default=180, min=1, help="Age of a heartbeat after which a service is down, seconds."
    ),
    cfg.IntOpt(
        "sync_container_state_interval",
        default=60,
        help="Seconds between comparisons of database and engine; 0 = 60, negative = off.",
    ),
    cfg.StrOpt("auth_encryption_key", secret=True, help="32-character key that encrypts stored registry passwords."),
    cfg.StrOpt(
        "transport_url",
        default="local://",
        secret=True,
        help="Bus: local:// (one process), unix:///folder (several processes on one machine) or RabbitMQ:"
        " rabbit://user:password@host1:5672,user:password@host2:5672/vhost",
    ),
    cfg.StrOpt("control_exchange", default="zun", help="Exchange in RabbitMQ."),
    cfg.IntOpt("rpc_response_timeout", default=60, min=1, help="Longest wait for a node's answer, seconds."),
]
