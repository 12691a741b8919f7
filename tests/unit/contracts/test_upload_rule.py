"""Tests of upload rules as a deployment writes and checks them, and as a function reads them."""

from __future__ import annotations

from typing import Any

import pytest

from ddbload.contracts.source import LOCATION_FIELDS
from ddbload.contracts.upload_rule import Upload, UploadRule
from ddbload.errors import DdbloadError, DuplicateColumn, EmptyColumnName, InvalidPayload

RULE = {"prefix": "books/", "table": "books"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"table": "books"}, "'upload.prefix' must be plain text"),
        ({**RULE, "prefix": "a*"}, "'upload.prefix' must be plain text"),
        ({"prefix": ""}, "'upload.table' is missing"),
        ({**RULE, "tabel": "x"}, "unknown field 'upload.tabel'"),
        ({**RULE, "types": []}, "'upload.types' must be an object"),
        ({**RULE, "infer_types": "yes"}, "'upload.infer_types' must be true or false"),
    ],
)
def test_rule_is_read_strictly(value: Any, message: str) -> None:
    with pytest.raises(InvalidPayload) as raised:
        UploadRule.from_json(value)
    assert raised.value.message.startswith(message)


@pytest.mark.parametrize("name", LOCATION_FIELDS)
def test_check_refuses_a_source_with_a_location(name: str) -> None:
    rule = UploadRule.from_json({**RULE, "source": {name: "x"}})
    with pytest.raises(InvalidPayload, match=rf"^unknown field 'uploads\[0\]\.source\.{name}'"):
        rule.check("uploads[0]")


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"options": {"workers": 0}}, InvalidPayload, r"'uploads\[0\]\.options\.workers' must be"),
        ({"source": {"format": ""}}, InvalidPayload, r"'uploads\[0\]\.source\.format' must be"),
        ({"source": {"encoding": "rot13"}}, InvalidPayload, "must be an encoding of text"),
        ({"source": {"quote": ";", "delimiter": ";"}}, InvalidPayload, "the same character"),
        ({"source": {"columns": ["a", ""]}}, EmptyColumnName, "column 2 has no name"),
        ({"mapping": {"rename": {"a": "x", "b": "x"}}}, DuplicateColumn, "both renamed to 'x'"),
    ],
)
def test_check_raises_what_each_run_would_raise(
    more: dict[str, Any], error: type[DdbloadError], message: str
) -> None:
    rule = UploadRule.from_json({**RULE, **more})
    with pytest.raises(error, match=message):
        rule.check("uploads[0]")


def test_run_id_differs_between_object_versions() -> None:
    upload = Upload("b", "k", "v1", "e")
    assert upload.run == Upload("b", "k", "v1", "e", sequencer="2").run
    assert upload.run != Upload("b", "k", "v2", "e").run
    unversioned = Upload("b", "k", None, "e", sequencer="1")
    assert unversioned.run == Upload("b", "k", "null", "e", sequencer="1").run
    assert unversioned.run != Upload("b", "k", None, "e", sequencer="2").run
