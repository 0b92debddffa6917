"""[docker]"""

from oslo_config import cfg

GROUP = "docker"
OPTIONS = [
    cfg.StrOpt(
        "api_url", default="unix:///var/run/docker.sock", help="Docker endpoint: unix:///path or tcp://host:port."
    ),
    cfg.StrOpt("docker_remote_api_version", default="auto", help="API version to speak; auto negotiates."),
    cfg.IntOpt("default_timeout", default=60, min=1, help="Longest wait for one call, seconds."),
    cfg.BoolOpt("api_insecure", default=False, help="Do not check the endpoint's TLS certificate."),
    cfg.StrOpt("ca_file", help="CA of the endpoint."),
    cfg.StrOpt("cert_file", help="Client certificate."),
    cfg.StrOpt("key_file", help="Client key."),
    cfg.IntOpt("execute_timeout", default=5, min=1, help="Longest run of a non-interactive execute, seconds."),
    cfg.StrOpt("default_registry", help="Registry put before image names that name none."),
    cfg.StrOpt("default_registry_username", help="User for the default registry."),
    cfg.StrOpt("default_registry_password", secret=True, help="Password for the default registry."),
    cfg.IntOpt(
        "pull_stall_timeout", default=120, min=1, help="Seconds without progress after which a pull is given up."
    ),
    cfg.IntOpt("pull_attempts", default=3, min=1, help="Tries of a pull that broke off."),
]
