"""Arguments of images."""

from __future__ import annotations

from typing import Annotated, Any

from zun.api.v1.models.common import IMAGE, Arguments, Check, ImageName, OneOf, StrictBoolean, Text, refuse

PullPolicy = Annotated[str, OneOf(("never", "always", "ifnotpresent", "Never", "Always", "IfNotPresent"))]


class _Size(Check):
    """A number of bytes, or of what its last letter says."""

    _text = Text(1, 32, r"^[0-9]+[bBkKmMgG|]?$")

    def check(self, value: Any) -> str | int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value if value >= 0 else refuse(f"{value} is less than the minimum of 0")
        return self._text.check(value)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "integer", "minimum": 0}, self._text.schema()]}


Size = Annotated[str | int, _Size()]


class Pull(Arguments):
    """``POST /images``. The members beside ``repo`` and ``host`` are taken and mean nothing."""

    repo: ImageName
    host: Annotated[str, Text(2, 255, IMAGE)]
    image_id: ImageName | None = None
    tag: ImageName | None = None
    size: Size | None = None
    image_pull_policy: PullPolicy | None = None


class Search(Arguments):
    """``GET /images/{image}/search``; the text ``None`` is the default driver."""

    image_driver: Annotated[str, OneOf(("glance", "docker", "None"))] | None = None
    exact_match: StrictBoolean = False
