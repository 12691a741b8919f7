"""A dialect gives the marks of its program's text, except those that are given themselves."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload.contracts.payload import Payload, attribute_type, canonical_type
from ddbload.contracts.source import Source
from ddbload.errors import InvalidPayload


def payload(source: dict[str, Any], **more: Any) -> Payload:
    found = Payload.from_json(
        {"source": {"path": "x", **source}, "target": {"table": "books"}, **more}
    )
    # Written and read again, it is the same.
    assert Payload.from_json(found.to_json()) == found
    return found


def marks(source: Source) -> tuple[str, str | None, str | None]:
    return source.delimiter, source.quote, source.escape


@pytest.mark.parametrize(
    ("given", "expected", "nulls"),
    [
        ({"dialect": "excel"}, (",", '"', None), ()),
        ({"dialect": "unix"}, (",", '"', None), ()),
        ({"dialect": "mysql"}, ("\t", None, "\\"), ("\\N",)),
        ({"dialect": "postgres"}, ("\t", None, "\\"), ("\\N",)),
        ({"dialect": "hive"}, ("\x01", None, None), ("\\N",)),
        ({"dialect": "hive", "escape": "\\"}, ("\x01", None, "\\"), ("\\N",)),
        ({"dialect": "mysql", "delimiter": ",", "quote": '"'}, (",", '"', "\\"), ("\\N",)),
        ({"dialect": "mysql", "delimiter": None, "escape": None}, ("\t", None, None), ("\\N",)),
        ({"dialect": "excel", "delimiter": ";", "format": "csv"}, (";", '"', None), ()),
        ({"dialect": None}, (",", '"', None), ()),
        ({"dialect": "mysql", "format": "auto"}, ("\t", None, "\\"), ("\\N",)),
    ],
)
def test_dialect_gives_what_is_not_given(given: Any, expected: Any, nulls: Any) -> None:
    found = payload(given)
    assert marks(found.source) == expected
    assert found.nulls.markers == nulls


def test_given_null_markers_replace_those_of_the_dialect() -> None:
    assert payload({"dialect": "mysql"}, nulls={"markers": ["NULL"]}).nulls.markers == ("NULL",)


@pytest.mark.parametrize("dialect", ["oracle", "", 7, ["mysql"], {"a": 1}])
def test_other_dialects_are_refused(dialect: Any) -> None:
    with pytest.raises(InvalidPayload, match=r"'source\.dialect' must be"):
        payload({"dialect": dialect})


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"decimal": ",", "thousands": ","}, r"'source\.thousands' must be another sign than"),
        ({"thousands": "."}, r"'source\.thousands' must be another sign than"),
        ({"decimal": ";"}, r"'source\.decimal' must be one of \., ,"),
        ({"thousands": "_"}, r"'source\.thousands' must be one of"),
    ],
)
def test_signs_of_numbers_that_contradict_are_refused(source: Any, told: str) -> None:
    with pytest.raises(InvalidPayload, match=told):
        payload(source)


@pytest.mark.parametrize(
    ("given", "canonical", "kind"),
    [
        ("date:%d/%m/%Y", "date:%d/%m/%Y", "S"),
        (" Date:%Y%m%d", "date:%Y%m%d", "S"),
        ("EPOCH:%B %d, %Y", "epoch:%B %d, %Y", "N"),
        ("epoch", "epoch", "N"),
        ("ddb_M", "ddb_M", "M"),
    ],
)
def test_type_may_have_a_format(given: str, canonical: str, kind: str) -> None:
    assert canonical_type(given) == canonical
    assert attribute_type(canonical) == kind
    assert payload({}, types={"a": given}).types == {"a": canonical}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("date:%d/%m", "'types.day' has a format of times in which no directive gives the year"),
        ("epoch:%s", "%s is none of the directives"),
        ("date", "'types.day' must be one of"),
        ("N:,.", "'types.day' must be one of"),
    ],
)
def test_format_that_cannot_be_used_is_refused(given: str, told: str) -> None:
    with pytest.raises(InvalidPayload, match=told):
        payload({}, types={"day": given})
