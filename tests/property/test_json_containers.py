"""Rows of arrays in several objects are those that Python's json reads, in every cut."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts.source import OBJECT
from ddbload.errors import InvalidJson
from ddbload.rows.json_framing import JsonFramer, rows_begin

texts = st.text(alphabet='a"\\{}[],: \né', max_size=5)
rows = st.lists(st.dictionaries(texts, texts | st.lists(texts, max_size=2), max_size=2), max_size=3)
more = st.dictionaries(texts.map(lambda text: "_" + text), texts | st.none(), max_size=2)
spaces = st.sampled_from([None, 1])


def requests(items: list[Any]) -> list[Any]:
    return [{"PutRequest": {"Item": item}} for item in items]


@st.composite
def containers(draw: st.DrawFn) -> tuple[list[Any], str, list[Any]]:
    """Draw objects, what separates them, and the rows of table T in them."""
    objects: list[Any] = []
    expected: list[Any] = []
    kind = draw(st.sampled_from(["page", "request", "requests", "responses", "model"]))
    for _ in range(draw(st.integers(1, 4))):
        found, others = draw(rows), draw(rows)
        if kind == "page":
            # A page without rows has no member that an item may have.
            around = {**draw(more), "Items": found, **draw(more)}
            objects.append(around if found else {"Count": 0, "Items": []})
        elif kind == "request":
            objects.append(draw(st.permutations([("T", requests(found)), ("B", requests(others))])))
            objects[-1] = dict(objects[-1])
        elif kind == "requests":
            objects.append({"RequestItems": {"B": requests(others), "T": requests(found)}})
        elif kind == "responses":
            tables = {"B": others, "T": found}
            objects.append({"UnprocessedKeys": {"T": {"Keys": [{}]}}, "Responses": tables})
        else:
            tables_of_model = [
                {"TableName": name, "NonKeyAttributes": [{"a": "b"}], "TableData": data}
                for name, data in draw(st.permutations([("T", found), ("B", others)]))
            ]
            objects.append({**draw(more), "DataModel": tables_of_model})
        expected += requests(found) if kind.startswith("request") else found
    return objects, draw(st.sampled_from(["", "\n", " \r\n "])), expected


@given(containers(), spaces, st.lists(st.integers(0, 900), max_size=8))
def test_rows_are_those_of_the_table_in_every_cut(
    found: tuple[list[Any], str, list[Any]], indent: int | None, cuts: list[int]
) -> None:
    objects, separator, expected = found
    data = separator.join(json.dumps(each, indent=indent) for each in objects).encode()
    begin = rows_begin(data, OBJECT, "T")
    if not expected:
        return
    assert begin is not None

    def framed(start: int, end: int) -> bytes:
        framer = JsonFramer(OBJECT, start, lambda: data, "T")
        ends = [*sorted(cut for cut in cuts if start < cut < end), end]
        pieces = (data[a:b] for a, b in zip([start, *ends], ends, strict=False))
        return b"".join(framer.frame(pieces, to_end=end == len(data)))

    output = framed(begin, len(data))
    assert len(output) == len(data) - begin
    assert [json.loads(line) for line in output.split(b"\n")] == expected
    byte = begin
    for line in output.split(b"\n")[:-1]:
        byte += len(line) + 1
        assert framed(byte, len(data)) == output[byte - begin :]
        assert framed(begin, byte) == output[: byte - begin]


items = st.dictionaries(texts, texts, min_size=1, max_size=2)
outermost = st.one_of(
    rows.map(lambda found: {"Items": found, "Count": len(found)}),
    rows.map(lambda found: {"T": requests(found)}),
    rows.map(lambda found: {"RequestItems": {"B": requests(found), "T": requests(found)}}),
    rows.map(lambda found: {"Responses": {"T": found}, "UnprocessedKeys": {}}),
    items,
    items.map(lambda item: {"Item": item}),
    items.map(lambda item: {"PutRequest": {"Item": item}}),
    items.map(lambda item: {"Items": item}),
    items.map(lambda item: {"Items": [1, item]}),
    items.map(lambda item: {"T": [item]}),
    items.map(lambda item: {"id": "1", "lines": [item]}),
    items.map(lambda item: {"id": "1", "Items": []}),
    items.map(lambda item: {"T": requests([item]), "B": [item]}),
    items.map(lambda item: {"Responses": {"T": [item], "B": [1, item]}}),
    st.sampled_from([1, "a", None, [], {}, [{}], [{"a": "b"}]]),
)


def rows_of(value: Any) -> tuple[str, list[Any]] | None:
    """Return the kind of an outermost value and its rows of table T; None for any other."""
    if not isinstance(value, dict):
        return None
    if value.keys() == {"Items", "Count"} and isinstance(value["Items"], list):
        return "page", value["Items"]
    value = value.get("RequestItems", value)
    responses = value.get("Responses", {})
    if responses and all(isinstance(each, dict) for found in responses.values() for each in found):
        return "tables", responses["T"]
    lists = [each for each in value.values() if isinstance(each, list)]
    are_requests = all(
        isinstance(row, dict) and "PutRequest" in row for each in lists for row in each
    )
    is_by_table = bool(lists) and len(lists) == len(value) and are_requests
    return ("tables", value.get("T", [])) if is_by_table else None


@given(st.lists(outermost, min_size=2, max_size=4), st.sampled_from(["", "\n"]), spaces)
def test_no_outermost_value_vanishes(values: list[Any], separator: str, indent: int | None) -> None:
    data = separator.join(json.dumps(each, indent=indent) for each in values).encode()
    first = rows_of(values[0])
    begin = rows_begin(data, OBJECT, "T")
    if begin is None or first is None or not first[1]:
        return
    framer = JsonFramer(OBJECT, begin, lambda: data, "T")
    known = [found for found in map(rows_of, values) if found is not None]
    try:
        output = b"".join(framer.frame(iter([data[begin:]]), to_end=True))
    except InvalidJson:
        assert len(known) < len(values) or len({kind for kind, _ in known}) > 1
        return
    assert len(known) == len(values)
    assert [json.loads(line) for line in output.split(b"\n")] == [
        row for _, found in known for row in found
    ]
