"""[placement_client]: how Placement is reached."""

from zun.conf import client_options

GROUP = "placement_client"
OPTIONS = client_options.of("Placement")
