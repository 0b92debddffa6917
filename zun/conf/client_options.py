"""Options that every OpenStack service we call has; used by ``[<service>_client]``."""

from oslo_config import cfg


def of(service: str) -> list[cfg.Opt]:
    """The options of one service, named as in the field."""
    return [
        cfg.StrOpt("region_name", help=f"Region of {service}'s endpoint; none = the only one in the catalogue."),
        cfg.StrOpt(
            "endpoint_type",
            default="publicURL",
            choices=["publicURL", "internalURL", "adminURL", "public", "internal", "admin"],
            help=f"Interface of {service}'s endpoint in the catalogue.",
        ),
        cfg.URIOpt("endpoint_override", help=f"{service}'s URL, instead of the one in the catalogue."),
        cfg.StrOpt("ca_file", help=f"CA certificates that {service}'s certificate is checked with."),
        cfg.StrOpt("cert_file", help=f"Client certificate for {service}."),
        cfg.StrOpt("key_file", help=f"Key of the client certificate for {service}."),
        cfg.BoolOpt("insecure", default=False, help=f"Do not check {service}'s certificate."),
        cfg.FloatOpt("timeout", default=30.0, min=0.1, help=f"Longest wait for one answer of {service}, seconds."),
    ]
