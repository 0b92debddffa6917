"""Routes of images: on hosts (administrators), and the search for them (everybody)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zun.api import paging
from zun.api.call import Answer, Call
from zun.api.schemas import LINKS, NULL, TEXT, TEXT_OR_NULL, listing, obj
from zun.api.table import Route
from zun.api.v1.container_find import asked
from zun.api.v1.models import images as models
from zun.api.views import links, location
from zun.control import images
from zun.store.images import SORTABLE


def _view(call: Call, row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "uuid": row["uuid"],
        "links": links(call, "images", row["uuid"]),
        "image_id": row["image_id"],
        "repo": row["repo"],
        "tag": row["tag"] or None,
        "size": None if row["size"] is None else str(row["size"]),
        "project_id": row["project_id"],
        "host": row["host"],
    }


async def list_images(call: Call) -> Answer:
    wanted = paging.read(call, SORTABLE)
    rows = await images.page(
        call.control,
        call.caller,
        limit=wanted.limit,
        sort_key=wanted.sort_key,
        descending=wanted.descending,
        marker=wanted.marker,
    )
    following = paging.next_link(call, "images", wanted, len(rows), rows[-1]["uuid"] if rows else None)
    return Answer({"images": [_view(call, row) for row in rows], "next": following})


async def pull(call: Call) -> Answer:
    """``image_id`` and ``size`` are null until the host has it; one that it cannot have goes from the list."""
    args: models.Pull = call.args
    row = await images.pull(call.control, asked(call), args.repo, args.host)
    return Answer(_view(call, row), headers=location(call, "images", row["uuid"]))


async def show(call: Call) -> Answer:
    return Answer(_view(call, await images.find(call.control, call.path["image_id"])))


async def delete(call: Call) -> Answer:
    await images.delete(call.control, asked(call), call.path["image_id"])
    return Answer()


async def search(call: Call) -> Answer:
    """A bare list; Glance's own records, or what the registry says."""
    args: models.Search = call.args
    driver = call.control.conf.default_image_driver if args.image_driver in (None, "None") else args.image_driver
    found = await images.search(call.control, call.caller, driver, call.path["image"], exact=args.exact_match)
    return Answer(list(found))


_IMAGE = {
    "uuid": TEXT,
    "links": LINKS,
    "image_id": TEXT_OR_NULL,
    "repo": TEXT,
    "tag": TEXT_OR_NULL,
    "size": TEXT_OR_NULL,
    "project_id": TEXT_OR_NULL,
    "host": TEXT,
}
_FOUND = {"type": "array", "items": {"type": "object"}}

ROUTES = [
    Route(
        "GET", "/images", "image.list", list_images, policy="image:get_all", answer=listing("images", _IMAGE),
        summary="List images on hosts", parameters=paging.DOCUMENTED,
    ),
    Route(
        "POST", "/images", "image.pull", pull, status=202, policy="image:pull", model=models.Pull, json_only=True,
        answer=obj(_IMAGE), summary="Pull an image to a host", raises=(409,), locates=True,
        example={"repo": "busybox", "host": "node1"},
    ),
    Route(
        "GET", "/images/{image_id}", "image.show", show, policy="image:get_one", answer=obj(_IMAGE),
        summary="Show an image",
    ),
    Route(
        "DELETE", "/images/{image_id}", "image.delete", delete, policy="image:delete", answer=NULL,
        summary="Remove an image from its host", raises=(409,),
    ),
    Route(
        "GET", "/images/{image}/search", "image.search", search, policy="image:search", model=models.Search,
        wide="image", answer=_FOUND, summary="Search for an image", raises=(409,),
    ),
]  # fmt: skip
