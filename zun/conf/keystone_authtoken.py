"""[keystone_authtoken]: how users' tokens are checked. With ``auth_url`` set, Keystone says who asks."""

from oslo_config import cfg

from zun.conf import keystone_options

GROUP = "keystone_authtoken"
OPTIONS = [
    *keystone_options.account(),
    *keystone_options.session(),
    cfg.StrOpt("www_authenticate_uri", help="Keystone's public URL, told to callers without a token."),
    cfg.StrOpt(
        "interface",
        default="internal",
        choices=["internal", "public", "admin", "internalURL", "publicURL", "adminURL"],
        help="Interface of Keystone's endpoint in the catalogue.",
    ),
    cfg.StrOpt("region_name", help="Region of Keystone's endpoint."),
    cfg.URIOpt("endpoint_override", help="Keystone's URL for checks of tokens, instead of the one in the catalogue."),
    cfg.IntOpt(
        "token_cache_time",
        default=300,
        min=-1,
        help="How long a checked token is believed, seconds, at most 300; 0 and -1: not at all.",
    ),
    cfg.ListOpt("service_token_roles", default=["service"], help="Roles that make a service token one."),
    cfg.BoolOpt(
        "service_token_roles_required", default=True, help="Refuse service tokens without one of service_token_roles."
    ),
]
