"""A payload and an upload rule take each option under its own name, beside their parts."""

from __future__ import annotations

import pytest

from ddbload.contracts.payload import Payload, named_options, payload_of
from ddbload.contracts.upload_rule import UploadRule
from ddbload.errors import InvalidPayload

PLACE = {"source": {"path": "books.csv"}, "target": {"table": "books"}}
NAMED = {
    "skip_lines": 2,
    "null": ["-"],
    "null_policy": "null",
    "rename": {"a": "b"},
    "max_wcu": "50%",
    "types": {"year": "N"},
    "header": False,
}


def test_named_options_are_those_of_the_parts():
    parts = {
        "source": {"path": "books.csv", "skip_lines": 2, "header": False},
        "target": {"table": "books"},
        "nulls": {"markers": ["-"], "policy": "null"},
        "mapping": {"rename": {"a": "b"}},
        "options": {"max_wcu": "50%"},
        "types": {"year": "N"},
    }
    assert Payload.from_json({**PLACE, **NAMED}) == Payload.from_json(parts)
    rule = UploadRule.from_json({"prefix": "", "table": "books", "skip_lines": 2, "null": ["-"]})
    assert rule.source == {"skip_lines": 2}
    assert rule.nulls == {"markers": ["-"]}


def test_option_given_by_name_and_in_its_part_is_refused():
    twice = {**PLACE, "null": ["-"], "nulls": {"markers": ["x"]}}
    with pytest.raises(InvalidPayload, match=r"'null' and 'nulls\.markers' are one option"):
        Payload.from_json(twice)


def test_part_that_is_no_object_is_named():
    with pytest.raises(InvalidPayload, match="'source' must be an object"):
        Payload.from_json({**PLACE, "source": "books.csv", "skip_lines": 2})


def test_wrong_value_is_named_by_its_place():
    with pytest.raises(InvalidPayload, match=r"'source\.skip_lines' must be a whole number"):
        Payload.from_json({**PLACE, "skip_lines": "2"})


def test_payload_of_no_options_detects_what_it_can():
    payload = payload_of({"path": "books.csv"}, "books", {})
    source = Payload.from_json(payload).source
    assert (source.format, source.delimiter, source.encoding) == ("auto", "auto", "auto")
    tabs = payload_of({"path": "books.csv"}, "books", {"format": "tsv"})
    assert tabs["source"]["delimiter"] == "\t"


def test_names_are_unique_and_those_of_the_command_line():
    names = named_options()
    assert {"header", "null", "null_policy", "max_row_bytes", "where"} <= names.keys()
    assert len(names) > 40
