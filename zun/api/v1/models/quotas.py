"""Arguments of quotas and quota classes."""

from __future__ import annotations

from typing import Annotated

from zun.api.v1.models.common import Arguments, Free, Whole

Limit = Annotated[int, Whole(-1)]
"""-1 = unlimited."""


class Limits(Arguments):
    """Limits to set; those not given stay."""

    containers: Limit | None = None
    memory: Limit | None = None
    cpu: Limit | None = None
    disk: Limit | None = None


class QuotaShow(Arguments):
    """``usages``: any text that is not empty asks for what is in use."""

    usages: Free | None = None
