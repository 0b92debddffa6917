"""The building blocks of request models, value by value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from zun.api.v1.models.common import (
    AnyList,
    AnyObject,
    Arguments,
    FreeBoolean,
    HostName,
    ImageName,
    JsonBoolean,
    Name,
    NonNegative,
    Number,
    OneOf,
    Positive,
    StrictBoolean,
    WideBoolean,
)
from zun.api.validation import validate
from zun.domain.errors import SchemaValidationError


class Strict(Arguments):
    value: StrictBoolean


class Wide(Arguments):
    value: WideBoolean


class Free(Arguments):
    value: FreeBoolean


class Json(Arguments):
    value: JsonBoolean


class Names(Arguments):
    value: Name | None = None


class Images(Arguments):
    value: ImageName


class Hosts(Arguments):
    value: HostName


class Naturals(Arguments):
    value: NonNegative


class Positives(Arguments):
    value: Positive


class Objects(Arguments):
    value: AnyObject


class Lists(Arguments):
    value: AnyList


STRICT = {True: True, False: False, "True": True, "true": True, "False": False, "false": False}
WIDE_YES = ("TRUE", "1", "ON", "On", "on", "YES", "Yes", "yes")
WIDE_NO = ("FALSE", "0", "OFF", "Off", "off", "NO", "No", "no")


def _takes(model: type[Arguments], value: Any) -> Any:
    return model.model_validate({"value": value}).value  # type: ignore[attr-defined]


def _refuses(model: type[Arguments], *values: Any) -> None:
    for value in values:
        with pytest.raises(ValidationError):
            model.model_validate({"value": value})


def test_kinds_of_booleans() -> None:
    for value, meaning in STRICT.items():
        assert _takes(Strict, value) is meaning
        assert _takes(Wide, value) is meaning
    for words, meaning in ((WIDE_YES, True), (WIDE_NO, False)):
        for word in words:
            assert _takes(Wide, word) is meaning
            assert _takes(Free, word) is meaning
    for word, meaning in (("T", True), ("Y", True), ("f", False), ("N", False), ("oN", True), ("tRuE", True)):
        assert _takes(Free, word) is meaning
    _refuses(Strict, "TRUE", "1", "yes", 1, 0, None, "", "True ", [], {})
    _refuses(Wide, "tRuE", "t", "y", 1, 0, None, "")
    _refuses(Free, "maybe", "", 1, None, "truee")
    assert _takes(Json, False) is False
    _refuses(Json, "true", 1, None)


def test_texts() -> None:
    assert _takes(Names, "a.b-c_D9") == "a.b-c_D9"
    assert _takes(Names, None) is None
    assert Names().given() == Names(value=None).given() == {}
    assert Names(value="ab").given() == {"value": "ab"}
    _refuses(Names, "a", "-ab", "a b", "ab\n", "ä" * 3, "a" * 256, 5, ["ab"])
    assert _takes(Images, "!!ubuntu:22.04@") == "!!ubuntu:22.04@"
    _refuses(Images, "!!", "a", None)
    assert _takes(Hosts, "h") == "h"
    _refuses(Hosts, "", "a b", "h\n", "h" * 256)


def test_numbers() -> None:
    for value, number in ((0, 0), ("0", 0), ("007", 7), (5.0, 5), (2**31 - 1, 2**31 - 1)):
        assert _takes(Naturals, value) == number
    _refuses(Naturals, -1, "-1", "", " 1", "1\n", "١", 1.5, 1e300, True, None, 2**31, "9" * 5000, [], float("nan"))
    _refuses(Positives, 0, "0")
    cpu = Number(0.1, 16)
    for value, cores in ((0.1, 0.1), ("0.5", 0.5), (".5", 0.5), (16, 16.0), ("16", 16.0)):
        assert cpu.check(value) == cores
    for wrong in (0, 17, "", ".", "1.", "1e1", "-1", "0.5\n", True, None, "1" * 400, float("inf"), float("nan")):
        with pytest.raises(ValueError):
            cpu.check(wrong)
    with pytest.raises(ValueError):
        OneOf(("a", "b")).check("c")


def test_containers_of_values() -> None:
    assert _takes(Objects, {"a": 1}) == {"a": 1}
    assert _takes(Lists, [1]) == [1]
    _refuses(Objects, [], None, "{}")
    _refuses(Lists, {}, None, "[]")


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_any_value_is_taken_or_named(value: Any) -> None:
    for model in (Strict, Wide, Free, Json, Names, Images, Hosts, Naturals, Positives, Objects, Lists):
        text = _complaint(model, value)
        assert text is None or text.startswith("Invalid input for field 'value'.Value: '")
        assert len(text or "") < 1500


def _complaint(model: type[Arguments], value: Any) -> str | None:
    try:
        validate(model, {"value": value})
    except SchemaValidationError as error:
        return error.message
    return None
