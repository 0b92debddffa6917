"""Holding: the image, present in the engine (S1.20). Nothing is released: images are shared and stay cached,
until ``image_care`` needs their room."""

from __future__ import annotations

from zun.compute import image_uses
from zun.compute.holdings.base import Progress
from zun.compute.node import Node
from zun.compute.work import Work
from zun.domain.errors import ImageFailed
from zun.domain.image import ImageReference, parse_reference
from zun.image.base import ImageRequest
from zun.runtime.base import RegistryAuth
from zun.store import registries


class Image:
    name = "image"

    async def ensure(self, work: Work, progress: Progress) -> None:
        """Pull by the container's policy; a rebuild's ``image`` and ``image_driver`` win over the row's."""
        if work.prepared.image is not None:
            return
        row, node = work.row, work.node
        driver_name = work.params.get("image_driver") or row.image_driver
        driver = node.images.get(driver_name)
        if driver is None:
            raise ImageFailed(f"This host has no image driver '{driver_name}'")
        asked = work.params.get("image")
        name, uuid = (asked, work.params.get("image_uuid")) if asked else (row.image, row.image_uuid)
        policy = (row.image_pull_policy or "always").lower()
        if work.operation.attempt > 1 and policy == "always" and work.params.get("healing"):
            policy = "ifnotpresent"
        request = await image_request(node, row.registry_id, driver_name, name, policy, uuid)
        work.prepared.image = await image_uses.ensure(node, driver, request, progress, work.operation.id)

    async def release(self, work: Work) -> None:
        """Images stay."""


async def image_request(
    node: Node, registry_id: int | None, driver: str, name: str, policy: str, uuid: str | None
) -> ImageRequest:
    """What a driver is asked for; only names of registries have a form. Raises ImageFailed, InvalidValue."""
    if driver != "docker":
        return ImageRequest(name, policy, uuid=uuid)
    reference, auth = await in_registry(node, registry_id, parse_reference(name))
    return ImageRequest(str(reference), policy, auth)


async def in_registry(
    node: Node, registry_id: int | None, reference: ImageReference
) -> tuple[ImageReference, RegistryAuth | None]:
    """The reference in the container's own registry, and the credentials stored for it. Raises ImageFailed."""
    if registry_id is None:
        return reference, None
    async with node.db.read() as connection:
        registry = await registries.get(connection, registry_id)
    if registry is None:
        raise ImageFailed("The registry of this container no longer exists")
    reference = reference.in_registry(registry["domain"])
    if not registry["username"]:
        return reference, None
    password = node.cipher.decrypt(registry["password"]) if registry["password"] else ""
    return reference, RegistryAuth(registry["domain"], registry["username"], password)
