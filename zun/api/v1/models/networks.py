"""Arguments of networks."""

from __future__ import annotations

from typing import Annotated

from zun.api.v1.models.common import IMAGE, Arguments, Text

NetworkText = Annotated[str, Text(2, 255, IMAGE)]
"""The same loose pattern as an image's name."""


class NetworkCreate(Arguments):
    """``POST /networks``; ``name`` has to be there and may be null."""

    name: NetworkText | None
    neutron_net_id: NetworkText
