"""Routes of container actions."""

from __future__ import annotations

from zun.api.table import Route

ROUTES: list[Route] = []
