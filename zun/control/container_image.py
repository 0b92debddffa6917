"""Which image a request means: found with the caller's own rights, kept as an id (the node acts for everybody)."""

from __future__ import annotations

from zun.control.base import Control
from zun.domain.caller import Caller
from zun.domain.errors import ValidationError


async def resolve(control: Control, caller: Caller, driver: str, image: str) -> str | None:
    """The image's id, None for drivers without ids. Raises InvalidValue, ImageNotFound (400), Conflict when a name
    fits several, Forbidden, Unavailable naming the service."""
    images = control.images.get(driver)
    if images is None:
        raise ValidationError(f"The image driver '{driver}' is not offered here.")
    return await images.resolve(caller, image)
