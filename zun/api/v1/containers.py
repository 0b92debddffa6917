"""Routes of containers."""

from __future__ import annotations

from zun.api.table import Route

ROUTES: list[Route] = []
