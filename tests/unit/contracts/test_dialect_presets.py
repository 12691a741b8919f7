"""A dialect gives the marks of its program's text, except those that are given themselves."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload.contracts.payload import Payload, attribute_type, canonical_type
from ddbload.errors import InvalidPayload


def payload(source: dict[str, Any], **more: Any) -> Payload:
    found = Payload.from_json(
        {"source": {"path": "x", **source}, "target": {"table": "books"}, **more}
    )
    # Written and read again, it is the same.
    assert Payload.from_json(found.to_json()) == found
    return found


@pytest.mark.parametrize(
    ("given", "expected", "nulls"),
    [
        ({"dialect": "excel"}, (",", '"', None), ()),
        ({"dialect": "mysql"}, ("\t", None, "\\"), ("\\N",)),
        ({"dialect": "postgres"}, ("\t", None, "\\"), ("\\N",)),
        ({"dialect": "hive"}, ("\x01", None, None), ("\\N",)),
        ({"dialect": "hive", "escape": "\\"}, ("\x01", None, "\\"), ("\\N",)),
        ({"dialect": "mysql", "delimiter": ",", "quote": '"'}, (",", '"', "\\"), ("\\N",)),
        ({"dialect": "mysql", "delimiter": None, "escape": None}, ("\t", None, None), ("\\N",)),
        ({"dialect": "excel", "delimiter": ";", "format": "csv"}, (";", '"', None), ()),
    ],
)
def test_dialect_gives_what_is_not_given(given: Any, expected: Any, nulls: Any) -> None:
    found = payload(given)
    source = found.source
    assert (source.delimiter, source.quote, source.escape) == expected
    assert found.nulls.markers == nulls


def test_given_null_markers_replace_those_of_the_dialect() -> None:
    assert payload({"dialect": "mysql"}, nulls={"markers": ["NULL"]}).nulls.markers == ("NULL",)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"dialect": "oracle"}, r"'source\.dialect' must be one of excel, mysql"),
        ({"dialect": ["mysql"]}, r"'source\.dialect' must be"),
        ({"decimal": ",", "thousands": ","}, r"'source\.thousands' must be another sign than"),
        ({"thousands": "."}, r"'source\.thousands' must be another sign than"),
        ({"decimal": ";"}, r"'source\.decimal' must be one of \., ,"),
    ],
)
def test_other_dialects_and_signs_are_refused(source: Any, told: str) -> None:
    with pytest.raises(InvalidPayload, match=told):
        payload(source)


def test_type_may_have_a_format() -> None:
    for given, kind in (" Date:%Y%m%d", "S"), ("EPOCH:%B %d, %Y", "N"), ("epoch", "N"):
        (found,) = payload({}, types={"a": given}).types.values()
        assert found.partition(":")[2] == given.partition(":")[2]
        assert found == canonical_type(found)
        assert attribute_type(found) == kind


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("date:%d/%m", "'types.day' has a format of times in which no directive gives the year"),
        ("epoch:%s", "%s is none of the directives"),
        ("date:%d/%m/%Y %y", "two directives give the year"),
        ("date:%d/%m/%Y %I", "%I and %p are used together"),
        ("date", "'types.day' must be one of"),
        ("N:,.", "'types.day' must be one of"),
    ],
)
def test_format_that_cannot_be_used_is_refused(given: str, told: str) -> None:
    with pytest.raises(InvalidPayload, match=told):
        payload({}, types={"day": given})
