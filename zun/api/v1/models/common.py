"""Building blocks of request models: each checks one value exactly as the contract says and names the fault.

Compose them as ``Annotated[str, Text(2, 255, NAME)]``; ``X | None = None`` means null is taken as not given.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NoReturn

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from zun.api.text import shown

NAME = r"^[a-zA-Z0-9][a-zA-Z0-9_.-]+$"
IMAGE = r"[a-zA-Z0-9][a-zA-Z0-9_.-]"
HOST = r"^[a-zA-Z0-9-._]*$"
DIGITS = r"^[0-9]+$"
MAX_INTEGER = 2**31 - 1
"""Largest integer of a column; larger ones are refused rather than wrapped."""

MOST_IDENTS = 100
"""Things that one request may name."""


class Arguments(BaseModel):
    """Base of request models: unknown members are refused."""

    model_config = ConfigDict(extra="forbid", populate_by_name=False, hide_input_in_errors=True)

    def given(self) -> dict[str, Any]:
        """Members that were sent and are not null, by field name."""
        return {name: value for name in self.model_fields_set if (value := getattr(self, name)) is not None}


def refuse(text: str) -> NoReturn:
    """Reject a value with ``text`` (never used as a format string); for validators of models."""
    raise PydanticCustomError("refused", "{text}", {"text": text})


class Check(ABC):
    """What one value has to be: for pydantic the check, for the document its schema."""

    @abstractmethod
    def check(self, value: Any) -> Any:
        """The value as handlers get it; refuses (``refuse``) what does not fit."""

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """The JSON schema of what fits."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return self.schema()


class Text(Check):
    """A string of bounded length. A pattern in ``^...$`` has to match the whole value (no trailing newline)."""

    def __init__(self, minimum: int = 0, maximum: int | None = None, pattern: str | None = None) -> None:
        self.minimum, self.maximum, self.pattern = minimum, maximum, pattern
        whole = pattern is not None and pattern.startswith("^") and pattern.endswith("$")
        compiled = re.compile(pattern[1:-1] if whole and pattern else pattern or "")
        self._match = compiled.fullmatch if whole else compiled.search

    def check(self, value: Any) -> str:
        if not isinstance(value, str):
            refuse(f"{shown(value)} is not of type 'string'")
        if len(value) < self.minimum:
            refuse(f"{shown(value)} is too short")
        if self.maximum is not None and len(value) > self.maximum:
            refuse(f"{shown(value)} is too long")
        if not self._match(value):
            refuse(f"{shown(value)} does not match {self.pattern!r}")
        return value

    def schema(self) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "string"}
        if self.minimum:
            found["minLength"] = self.minimum
        if self.maximum is not None:
            found["maxLength"] = self.maximum
        if self.pattern:
            found["pattern"] = self.pattern
        return found


class Whole(Check):
    """An integer, or a string of its decimal digits; gives an int."""

    _PATTERN = re.compile(r"-?[0-9]{1,20}")

    def __init__(self, minimum: int | None = None, maximum: int = MAX_INTEGER) -> None:
        self.minimum, self.maximum = minimum, maximum

    def check(self, value: Any) -> int:
        if isinstance(value, str):
            if not self._PATTERN.fullmatch(value):
                refuse(f"{shown(value)} is not an integer")
            number = int(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            number = value
        elif isinstance(value, float) and value.is_integer() and abs(value) <= MAX_INTEGER:
            number = int(value)
        else:
            refuse(f"{shown(value)} is not of type 'integer', 'string'")
        if self.minimum is not None and number < self.minimum:
            refuse(f"{number} is less than the minimum of {self.minimum}")
        if number > self.maximum:
            refuse(f"{number} is greater than the maximum of {self.maximum}")
        return number

    def schema(self) -> dict[str, Any]:
        number: dict[str, Any] = {"type": "integer", "maximum": self.maximum}
        if self.minimum is not None:
            number["minimum"] = self.minimum
        digits = r"^[0-9]+$" if self.minimum is not None and self.minimum >= 0 else r"^-?[0-9]+$"
        return {"anyOf": [number, {"type": "string", "pattern": digits}]}


class Number(Check):
    """A number, or a string such as ``0.5``; gives a float between the bounds."""

    _PATTERN = re.compile(r"[0-9]*(\.([0-9]+))?")

    def __init__(self, minimum: float, maximum: float) -> None:
        self.minimum, self.maximum = minimum, maximum

    def check(self, value: Any) -> float:
        if isinstance(value, str):
            if not value or len(value) > 32 or not self._PATTERN.fullmatch(value):
                refuse(f"{shown(value)} does not match '^[0-9]*(\\\\.([0-9]+))?$'")
            number = float(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            number = float(value)
        else:
            refuse(f"{shown(value)} is not of type 'number', 'string'")
        if not number >= self.minimum:  # also what is not a number
            refuse(f"{number} is less than the minimum of {self.minimum}")
        if number > self.maximum:
            refuse(f"{number} is greater than the maximum of {self.maximum}")
        return number

    def schema(self) -> dict[str, Any]:
        return {
            "anyOf": [
                {"type": "number", "minimum": self.minimum, "maximum": self.maximum},
                {"type": "string", "minLength": 1, "pattern": r"^[0-9]*(\.([0-9]+))?$"},
            ]
        }


class OneOf(Check):
    """One of fixed strings."""

    def __init__(self, values: Sequence[str]) -> None:
        self.values = tuple(values)

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self.values:
            refuse(f"{shown(value)} is not one of {list(self.values)}")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.values)}


class Boolean(Check):
    """JSON true or false, or one of the listed words (letter case matters unless ``fold``)."""

    def __init__(self, yes: Sequence[str], no: Sequence[str], *, fold: bool = False) -> None:
        self._words = dict.fromkeys(yes, True) | dict.fromkeys(no, False)
        self._fold = fold

    def check(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str):
            found = self._words.get(value.strip().lower() if self._fold else value)
            if found is not None:
                return found
        refuse(f"{shown(value)} is not one of {[True, False, *self._words]}")

    def schema(self) -> dict[str, Any]:
        words: dict[str, Any] = {"type": "string"}
        if not self._fold:
            words["enum"] = list(self._words)
        return {"anyOf": [{"type": "boolean"}, words]}


STRICT = Boolean(("True", "true"), ("False", "false"))
WIDE = Boolean(
    ("True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes"),
    ("False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no"),
)
FREE = Boolean(("1", "t", "true", "on", "y", "yes"), ("0", "f", "false", "off", "n", "no"), fold=True)


class _JsonBoolean(Check):
    def check(self, value: Any) -> bool:
        if not isinstance(value, bool):
            refuse(f"{shown(value)} is not of type 'boolean'")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


class _Object(Check):
    def check(self, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            refuse(f"{shown(value)} is not of type 'object'")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "object"}


class _List(Check):
    def check(self, value: Any) -> list[Any]:
        if not isinstance(value, list):
            refuse(f"{shown(value)} is not of type 'array'")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {}}


StrictBoolean = Annotated[bool, STRICT]
WideBoolean = Annotated[bool, WIDE]
FreeBoolean = Annotated[bool, FREE]
JsonBoolean = Annotated[bool, _JsonBoolean()]
"""true or false only, no strings."""
Name = Annotated[str, Text(2, 255, NAME)]
ImageName = Annotated[str, Text(2, 255, IMAGE)]
HostName = Annotated[str, Text(1, 255, HOST)]
Short = Annotated[str, Text(1, 255)]
"""Any text of 1 to 255 characters."""
Free = Annotated[str, Text()]
NonNegative = Annotated[int, Whole(0)]
Positive = Annotated[int, Whole(1)]
AnyObject = Annotated[dict[str, Any], _Object()]
AnyList = Annotated[list[Any], _List()]


def _several(value: Any) -> Any:
    """One that is named in a query is a list of one."""
    return [value] if isinstance(value, str) else value


Idents = Annotated[
    list[Annotated[str, Text(1, 255)]], Field(min_length=1, max_length=MOST_IDENTS), BeforeValidator(_several)
]
"""Uuids and names that one request is about."""
