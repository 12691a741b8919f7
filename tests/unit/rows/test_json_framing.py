"""Tests of framing JSON values that are not one a line.

The oracle is Python's `json`: it shares no code with the framing, and reads numbers as decimals.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ddbload.contracts.source import ARRAY, OBJECT, VALUES
from ddbload.errors import InvalidJson
from ddbload.rows.json_framing import JsonFramer, rows_begin

BEFORE = b'{"Count": 2, "note": "[{ \\"", "list": [1, [2]], "Items": [ '
AFTER = b'], "last": {"x": ["]"]}}\n '

strings = st.text(alphabet='a"\\{}[],: \n\x7fé\U0001f600', max_size=6)
numbers = st.sampled_from(["1", "-0.10", "1e400", "12345678901234567890.0001", "0"])
members = st.recursive(
    st.one_of(strings, numbers.map(Decimal), st.booleans(), st.none()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
    max_leaves=8,
)
rows = st.lists(st.dictionaries(strings, members, max_size=3), max_size=6)
cuts = st.lists(st.integers(0, 400), max_size=8)


def written(value: Any, space: str, *, ascii_only: bool) -> str:
    """Write JSON with white space around every token, and decimals as they are."""
    if isinstance(value, Decimal):
        return f"{space}{value}{space}"
    if isinstance(value, dict):
        inside = ",".join(
            f"{space}{json.dumps(name, ensure_ascii=ascii_only)}{space}:"
            f"{written(each, space, ascii_only=ascii_only)}"
            for name, each in value.items()
        )
        return "{" + inside + space + "}"
    if isinstance(value, list):
        inside = ",".join(written(each, space, ascii_only=ascii_only) for each in value)
        return "[" + inside + space + "]"
    return f"{space}{json.dumps(value, ensure_ascii=ascii_only)}{space}"


def pieces(data: bytes, at: Iterable[int]) -> Iterator[bytes]:
    begin = 0
    for end in [*sorted({cut for cut in at if cut < len(data)}), len(data)]:
        yield data[begin:end]
        begin = end


def framed(data: bytes, layout: str, at: Iterable[int] = ()) -> bytes:
    begin = rows_begin(data, layout)
    assert begin is not None
    framer = JsonFramer(layout, begin, lambda: data)
    return b"".join(framer.frame(pieces(data[begin:], at), to_end=True))


def lines(text: bytes) -> list[Any]:
    return [json.loads(line, parse_float=Decimal) for line in text.split(b"\n") if line.strip()]


def as_read(row: Any) -> Any:
    return json.loads(written(row, "", ascii_only=True), parse_float=Decimal)


@given(rows, cuts, st.sampled_from(["", " ", "\n", "\r\n\t "]), st.booleans(), st.data())
def test_lines_are_the_values_of_any_layout(
    expected: list[Any], at: list[int], space: str, ascii_only: bool, data: st.DataObject
) -> None:
    layout = data.draw(st.sampled_from([ARRAY, OBJECT, VALUES]))
    values = [written(row, space, ascii_only=ascii_only) for row in expected]
    if layout == VALUES:
        text = (space or "\n").join(values).encode()
        if not values:
            return
    else:
        text = f"{space},{space}".join(values).encode()
        text = b"[" + text + b" ]\n" if layout == ARRAY else BEFORE + text + AFTER
    begin = rows_begin(text, layout)
    if begin is None:
        assert not expected
        return
    output = framed(text, layout, at)
    assert lines(output) == [as_read(row) for row in expected]
    assert len(output) == len(text) - begin
    # Each row begins where its value begins in the source, and reading can begin there.
    byte = begin
    for line in output.split(b"\n")[:-1]:
        byte += len(line) + 1
        assert text[byte : byte + 1] == b"{"
        rest = b"".join(
            JsonFramer(layout, byte, lambda: text).frame(iter([text[byte:]]), to_end=True)
        )
        assert rest == output[byte - begin :]
        before = JsonFramer(layout, begin).frame(pieces(text[begin:byte], at), to_end=False)
        assert b"".join(before) == output[: byte - begin]


@given(st.text(alphabet='{}[]",\\ \n1a', max_size=30), cuts)
@example('{"a":"\\\n"}', [6, 7])
@example('{"a":"b\nc"},{}', [])
@example('{"a":"\\"}"},{}', [])
def test_pieces_do_not_matter_for_any_text(text: str, at: list[int]) -> None:
    data = b"[{}," + text.encode() + b"]"

    def result(cut: Iterable[int]) -> bytes | str:
        try:
            return framed(data, ARRAY, cut)
        except InvalidJson as error:
            return error.message

    whole = result(())
    assert result(at) == whole
    assert result(range(len(data))) == whole
    try:
        expected = json.loads(data)
    except ValueError:
        return
    assert isinstance(whole, bytes)
    assert lines(whole) == expected


@pytest.mark.parametrize("cut", [1, 2, 8, 12, 13])
def test_array_that_is_cut_off_is_refused(cut: int) -> None:
    data = b'[{"a": "]"}, {}]'
    with pytest.raises(InvalidJson, match="cut off"):
        framed(data[:-cut], ARRAY)


@pytest.mark.parametrize(
    ("text", "layout", "message"),
    [
        ("[{}]x", ARRAY, "byte 4: the array has ended"),
        ("[{}] []", ARRAY, "byte 5: the array has ended"),
        ("[{},]", ARRAY, "byte 4: ] where a value"),
        ("[{},,{}]", ARRAY, "byte 4: , where a value"),
        ("[{}{}]", ARRAY, "byte 3: a comma or ]"),
        ("[{} 1]", ARRAY, "byte 4: a comma or ]"),
        ("[{}}", ARRAY, "byte 3: a comma or ]"),
        ("{}{}", VALUES, "byte 2: white space"),
        ("{},{}", VALUES, "byte 2: white space"),
        ("{} ,{}", VALUES, "byte 3: , where"),
        ('{"a": [{}], "b": [{}]}', OBJECT, "several arrays"),
        ('{"a": [{}], "a": 1}', OBJECT, "names a member twice"),
        ('{"a": [{}], "b": NaN}', OBJECT, "is not JSON"),
        ('{"a": [{}]', OBJECT, "cut off"),
        ('{"a": [{}]}}', OBJECT, "more follows"),
        ('{"a": [{}]} {"a": [{}]}', OBJECT, "more follows"),
        ('{"a": [{}], "b": ' + "[" * 100_000, OBJECT, "is not JSON"),
        ('{"a": [{}], "b": "' + "x" * 1024 * 1024, OBJECT, "1,048,576 bytes follow"),
    ],
)
def test_what_is_no_layout_is_refused_with_its_byte(text: str, layout: str, message: str) -> None:
    with pytest.raises(InvalidJson) as caught:
        framed(text.encode(), layout)
    assert message in caught.value.message


def test_members_around_an_array_are_told_unless_they_are_empty() -> None:
    data = b'{"Items": [{}], "Count": 1, "LastEvaluatedKey": {"id": {"S": "x"}}, "NextToken": null}'
    framer = JsonFramer(OBJECT, data.index(b"{}"), lambda: data)
    assert list(framer.frame(iter([data[data.index(b"{}") :]]), to_end=True))
    assert framer.members == {"Count", "LastEvaluatedKey"}
