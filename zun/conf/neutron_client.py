"""[neutron_client]: how Neutron is reached."""

from zun.conf import client_options

GROUP = "neutron_client"
OPTIONS = client_options.of("Neutron")
