"""[glance_client]: how Glance is reached."""

from zun.conf import client_options

GROUP = "glance_client"
OPTIONS = client_options.of("Glance")
