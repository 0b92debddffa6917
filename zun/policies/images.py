"""Rules of images."""

from __future__ import annotations

from zun.policies.base import ADMIN, ADMIN_OR_OWNER, rule

RULES = [
    rule("image:pull", ADMIN, "Pull an image to a host.", "POST /v1/images"),
    rule("image:get_all", ADMIN, "List images.", "GET /v1/images"),
    rule("image:get_one", ADMIN, "Show an image.", "GET /v1/images/{image_id}"),
    rule("image:search", ADMIN_OR_OWNER, "Search for an image.", "GET /v1/images/{image_ident}/search"),
    rule("image:delete", ADMIN, "Delete an image.", "DELETE /v1/images/{image_ident}"),
]
