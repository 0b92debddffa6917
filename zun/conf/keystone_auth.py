"""[keystone_auth]: our own account; empty, that of [keystone_authtoken] is used."""

from zun.conf import keystone_options

GROUP = "keystone_auth"
OPTIONS = [*keystone_options.account(), *keystone_options.session()]
