"""Image references are understood, or refused with what is wrong; never accepted and stuck."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zun.domain.errors import InvalidValue
from zun.domain.image import parse_reference


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("busybox", "busybox:latest"),
        ("busybox:1.36", "busybox:1.36"),
        ("library/nginx", "library/nginx:latest"),
        ("127.0.0.1:5000/a/b:tag", "127.0.0.1:5000/a/b:tag"),
        ("localhost/x", "localhost/x:latest"),
        ("registry.example.org/team/app@sha256:" + "a" * 64, "registry.example.org/team/app@sha256:" + "a" * 64),
        ("a__b/c-d.e", "a__b/c-d.e:latest"),
    ],
)
def test_references_are_understood(text: str, shown: str) -> None:
    assert str(parse_reference(text)) == shown


@pytest.mark.parametrize(
    "text",
    ["UPPER/bad:::", "a:", ":tag", "a//b", "a@sha256:1", "ümlaut", "a b", "reg.io/", "-x", "a:b:c", "http://a/b"],
)
def test_malformed_references_are_refused_with_the_reference_named(text: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        parse_reference(text)
    assert text in refused.value.message


def test_the_default_registry_is_put_only_before_names_that_name_none() -> None:
    assert str(parse_reference("busybox").in_registry("reg:5000")) == "reg:5000/busybox:latest"
    assert str(parse_reference("other.io/busybox").in_registry("reg:5000")) == "other.io/busybox:latest"


@given(st.text(max_size=60))
def test_any_text_is_either_parsed_or_refused(text: str) -> None:
    try:
        reference = parse_reference(text)
    except InvalidValue:
        return
    assert parse_reference(str(reference)) == parse_reference(str(parse_reference(str(reference))))
