"""Tests of recognizing JSON that is not one object a line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddbload.errors import UnsupportedFormat
from ddbload.rows.json_shape import (
    CONTAINER,
    JOINED,
    OBJECTS,
    OTHERS,
    PRETTY,
    SCAN,
    SPACED,
    begins_as_lines,
    is_undecided,
    json_layout,
    refuse_text_below_json,
    shape_of_json,
)


def shape(text: str | bytes, *keys: str, whole: bool = True) -> str | None:
    data = text.encode() if isinstance(text, str) else text
    return shape_of_json(data, whole=whole, keys=keys)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[{"a": 1}, {"a": 2}]', OBJECTS),
        ('[{"a": 1}]\n[{"a": 2}]\n', OBJECTS),
        ('[{"a": 1}]\n[{"a": 2}', OBJECTS),
        ('[{"a": 1}, 2]', OBJECTS),
        ('[{"a": 1}] x', OBJECTS),
        ('[\n{"id": 1},\n{"id": 2}\n', OBJECTS),
        ('[{"a": 1}, {"b": 2', OBJECTS),
        ('[{"a": 1}, {bad}]', OBJECTS),
        ("[]", OBJECTS),
        ("[1, 2]", OTHERS),
        ("[[{}]]", OTHERS),
        ('["a",\n{"a": 1}]', OTHERS),
        ('{\n"a": {"b": [{"c": 1}, {"c": 2}]}, "d": []}', CONTAINER),
        ('{\n"a": {"b": [{"c": 1}, {"c": 2}]}, "d": [1]}', PRETTY),
        ('{\n"orderId": 7, "lines": [{"c": 1}, {"c": 2}]}', PRETTY),
        ('{\n"a": [{"c": 1}], "b": [{"c": 2}]}', PRETTY),
        ('{\n"a": [{"c": 1}]}\n{}', PRETTY),
        ('{\n"a": [{"c": 1}, {"c": 2}', CONTAINER),
        ('{\n"Item": {"a": {"L": [{"S": "x"}]}}}', PRETTY),
        ('{"Items": [{"a": 1}, {"b"', SCAN),
        ('\r\n [\n{"a": 1},\n{"a": 2}]', OBJECTS),
        ('{\n"a": 1}', PRETTY),
        ('{"a": 1,\r\n"b": {}}\n{"c": 1}\n', PRETTY),
        ('{"a": 1}{"a": 2}', JOINED),
        ('{"a": 1} {"a": 2}\n{"a": 3} {"a": 4}\n', SPACED),
        ('{"Items": []}', SCAN),
        ('{"Items": [{"a": 1}], "Count": 1}\nbad\n', SCAN),
        ('{\n"ScannedCount": 1,\n"Items": [\n{"a"', SCAN),
        ("[" * 100_000, None),
        ("", None),
        ("\n", None),
        ("a,b", None),
        ('"a"', None),
        ('{"a": 1}', None),
        ('{"a": 1} x', None),
        ("{'a': 1}", None),
        ("[1, 2]\n[3]\n", None),
        ('{"Items": [1]}', None),
        ('{"Items": 1, "Count": 1}', None),
        ('{"Count": 1}', None),
        ('{"Items": [], "total": 1}', None),
        ('[{"a": 1}]\n{"a": 2}\n', None),
        ('{"a": "x\ny"}', None),
    ],
)
def test_shape_is_named(text: str, expected: str | None) -> None:
    assert shape(text) == expected
    assert shape("\n" + text) == expected


def test_object_with_all_keys_is_an_item_even_if_it_looks_like_a_scan() -> None:
    page = '{"Items": [{"id": 1}], "Count": 1, "NextToken": "x"}\n'
    assert shape(page) == shape(page, "id") == shape(page, "Count", "id") == SCAN
    assert shape(page, "Count") is None
    assert shape(page, "NextToken", "Count") is None
    assert begins_as_lines(page.encode(), ["Count"])
    assert not begins_as_lines(page.encode(), ["id"])


@pytest.mark.parametrize(
    "cut",
    ["", '"', '"a\\', '"\\u00', '"é', "tr", "-", "1.5", "1e", '{"b', '{"b": [1, ', "[null, "],
)
def test_shape_is_named_when_the_sample_ends_inside_a_value(cut: str) -> None:
    for begin, expected in (('{\n"a": ', PRETTY), ('{"Items": [\n', SCAN)):
        text = begin + cut
        assert shape(text, whole=False) == expected
        assert shape(text.encode()[:-1] + b"\xc3" if cut == '"é' else text, whole=False)
    is_open = cut == "" or cut.startswith("{")
    assert shape("[\n" + cut, whole=False) == (OBJECTS if is_open else OTHERS)
    assert shape('[{"a": 1}, ' + cut, whole=False) == OBJECTS
    # The first line may be an object yet, and that which is all of the file is a bad row.
    assert shape('{"a": ' + cut, whole=False) is None
    assert shape('{"a": ' + cut) is None
    assert shape("[\n{},\n" + cut) == OBJECTS


def test_object_with_rows_that_is_cut_off_on_one_line_is_read_up_to_there() -> None:
    for text in ('{"books": [{"id": 1}, {"id', '{"a": {"books": [{"id": 1}'):
        assert shape(text) == CONTAINER
        assert shape(text + "\n{}\n") is None


@pytest.mark.parametrize(
    ("text", "skip"),
    [
        ('{\n "made": 1\n}\nid,n\n1,2\n', 3),
        ('[\n{"made": 1}\n]\n\nid;n\n1;2\n', 4),
        ('{"made": 1}\n"id","n"\n"1","2"\n', 1),
        ('{"made": 1}\nbroken\n{"made": 2}\n', None),
        ('{"made": 1}\nbroken\n', None),
        ('{"made": 1} id\n1,2\n3,4\n', None),
        ('{\n"made": 1\n}\n,\n{\n"made": 2\n}\n', None),
        ("id,n\n1,2\n3,4\n", None),
    ],
)
def test_text_below_json_is_refused_by_name(text: str, skip: int | None) -> None:
    if skip is None:
        refuse_text_below_json(text.encode(), 5)
        return
    with pytest.raises(UnsupportedFormat, match=f"ends before line {skip + 6}") as refused:
        refuse_text_below_json(text.encode(), 5)
    (option,) = refused.value.options
    assert (option["options"], option["best"]) == (["--skip-lines", str(skip + 5)], False)


def test_object_without_the_keys_may_hold_the_rows() -> None:
    line = b'{"data": {"books": [{"id": 1}, {"id": 2}]}}'
    assert json_layout(line, whole=True, keys=["id"]) == ("object", CONTAINER)
    assert json_layout(line, whole=True, keys=["data"]) is None
    assert json_layout(line, whole=True, keys=[]) is None
    assert json_layout(line + b"\n{}", whole=True, keys=["id"]) is None
    spread = line.replace(b"{", b"{\n")
    assert json_layout(spread, whole=True, keys=[]) == ("object", CONTAINER)
    assert json_layout(spread, whole=True, keys=["data"]) == ("values", PRETTY)
    # No item is as large as a sample that ends in its first value.
    assert json_layout(spread[:-3], whole=False, keys=["data"]) == ("object", CONTAINER)
    assert is_undecided(spread[:-3])
    assert is_undecided(spread)
    assert not is_undecided(spread + b"\n{")
    assert not is_undecided(b"[" + spread[:-3])


def test_file_begins_as_lines_only_when_its_first_line_is_complete() -> None:
    assert begins_as_lines(b'\n {"a": 1}\r\n[', ())
    for data in (b'{"a": 1}', b"[]\n", b'{"a": 1}{}\n', b"x\n", b"\n", b"", b'{"Items": []}\n'):
        assert not begins_as_lines(data, ())


@pytest.mark.parametrize(
    "line",
    [
        {"id": {"S": "1"}, "Responses": {"L": [{"M": {}}]}},
        {"id": 1, "Responses": {"q1": [{"a": 1}]}},
        {"DataModel": [{"a": 1}]},
        {"PutRequest": {"Item": {"id": {"S": "1"}}}},
    ],
)
def test_items_with_members_named_as_in_requests_are_lines(line: dict[str, Any]) -> None:
    text = json.dumps(line) + "\n"
    for data in (text, 3 * text):
        assert shape_of_json(data.encode(), whole=True, keys=()) is None
        assert begins_as_lines(data.encode(), ())
