"""What all errors of the product have in common."""

from __future__ import annotations

import re
from typing import ClassVar

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z]*|[0-9]+|[a-z]+")


def slug_of(name: str) -> str:
    """``InvalidStateException`` -> ``invalid-state-exception``; ``Base64Exception`` -> ``base-64-exception``."""
    return "-".join(word.lower() for word in _WORDS.findall(name))


class ZunError(Exception):
    """Base of all; ``message`` is meant for the person who reads it."""

    status: ClassVar[int] = 500
    slug: ClassVar[str] = ""
    retryable: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "slug" not in cls.__dict__ and cls.status < 500:
            cls.slug = slug_of(cls.__name__)

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message
