"""Laws of JSON lines: they become the oracle's items, however the source is cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from ddbload.contracts.run_record import Cursor, KeyAttribute, Table
from ddbload.items.document_builder import DocumentRules, item_line
from ddbload.items.item_requests import item_of_request
from ddbload.items.row_encoder import DocumentEncoder
from ddbload.rows.blocks import Defect
from tests.oracle.json_machine import Bad, Number, Row, attribute, check_text, read_rows, typed
from tests.property.document_files import Maker
from tests.unit.rows.row_readers import blocks_of, chunks_of

TABLE = Table("t", "id", (KeyAttribute("id", "S", 2048),), ())
PLAIN = DocumentRules(TABLE)
TYPED = DocumentRules(TABLE, typed=True, native=True, envelope=item_line)
SYNTAX = {"bad_encoding", "bad_json", "not_an_object"}

seeds = st.integers(0, 2**40)
sizes = st.lists(st.integers(1, 90), min_size=1, max_size=4)


class Found(NamedTuple):
    line: int
    byte: int
    outcome: Any
    """Attributes, or the cause of the reject."""


def read(
    data: bytes, rules: DocumentRules, chunk_bytes: int, piece_bytes: list[int]
) -> list[Found]:
    """Read every row as the pipeline does."""
    rows = DocumentEncoder(rules)
    start = Cursor(1000, 7)
    found: list[Found] = []
    for chunk in chunks_of(data, rows.ends, start, chunk_bytes):
        part = data[chunk.start - start.byte : chunk.end - start.byte]
        at = Cursor(chunk.start, chunk.first_line)
        for block in blocks_of(part, rows.ends, at, piece_bytes):
            if chunk_bytes % 2:
                # Again: some things are remembered from rows that came before.
                rows.read(block)
            places, encoded = rows.read(block)
            for row in range(places.count):
                built = rows.build(places.data(row), places.byte(row))
                is_odd = row in encoded.odd
                assert is_odd == isinstance(built, Defect), built
                place = places.position(row)
                if isinstance(built, Defect):
                    found.append(Found(place.line, place.byte, built.cause))
                    continue
                written = item_of_request(encoded.puts[row])
                assert written == built.attributes
                assert encoded.keys[row] == built.key
                found.append(Found(place.line, place.byte, written))
    return found


def plain_item(row: Row) -> Any:
    """Return the item of a row of plain JSON, or the cause of its reject."""
    if not isinstance(row.value, dict):
        raise row.value if isinstance(row.value, Bad) else Bad("duplicate_name")
    item = {}
    for name, value in row.value.items():
        if not check_text(name):
            raise Bad("bad_name")
        if name == "id" and isinstance(value, Number):
            item[name] = {"S": str(value)}
        elif value is not None:
            item[name] = attribute(value)
    return with_key(item)


def typed_item(row: Row) -> Any:
    """Return the item of a row of DynamoDB JSON, or the cause of its reject."""
    value = row.value
    if isinstance(value, dict) and value.keys() == {"Item"} and not is_value(value["Item"]):
        value = value["Item"]
    if not isinstance(value, dict):
        raise value if isinstance(value, Bad) else Bad("other")
    if not all(map(check_text, value)):
        raise Bad("bad_name")
    return with_key({name: typed(each) for name, each in value.items()})


def is_value(content: Any) -> bool:
    """Return whether an object can only be a value, and not an item."""
    if not isinstance(content, dict):
        return not isinstance(content, list) or not content or not isinstance(content[0], tuple)
    types = {"S", "N", "B", "SS", "NS", "BS", "BOOL", "NULL", "L", "M"}
    return len(content) == 1 and any(
        name in types and not isinstance(inner, dict) for name, inner in content.items()
    )


def with_key(item: dict[str, Any]) -> dict[str, Any]:
    """Return the item if its key is good."""
    key = item.get("id", {}).get("S", "")
    if not 0 < len(key.encode()) <= 2048:
        raise Bad("key")
    return item


def assert_the_oracles(found: list[Found], data: bytes, *, is_typed: bool) -> None:
    """Assert that rows are the oracle's: the same positions, and the same items or rejects."""
    expected = read_rows(data)
    assert [(row.line, row.byte) for row in found] == [
        (row.line + 6, row.byte + 1000) for row in expected
    ]
    for each, row in zip(found, expected, strict=True):
        item = outcome(typed_item if is_typed else plain_item, row)
        if not isinstance(item, str):
            assert each.outcome == item
            continue
        assert isinstance(each.outcome, str), (each, item)
        # Of what is no JSON nothing else can be told. It may be too deep to be looked at, too.
        assert item not in SYNTAX or each.outcome in (item, "nested_too_deep"), (each, item)
        assert each.outcome not in SYNTAX or item == each.outcome, (each, item)


def outcome(item_of_row: Callable[[Row], Any], row: Row) -> Any:
    """Return a row's item, or the cause of its reject."""
    try:
        return item_of_row(row)
    except Bad as bad:
        return str(bad.args[0])


@given(seeds, st.integers(1, 150), sizes)
def test_rows_of_json_equal_the_oracles(
    seed: int, chunk_bytes: int, piece_bytes: list[int]
) -> None:
    data = Maker(seed).file(typed=False)
    found = read(data, PLAIN, chunk_bytes, piece_bytes)
    assert_the_oracles(found, data, is_typed=False)


@given(seeds, st.integers(1, 150), sizes)
def test_rows_of_dynamodb_json_equal_the_oracles(
    seed: int, chunk_bytes: int, piece_bytes: list[int]
) -> None:
    data = Maker(seed).file(typed=True)
    found = read(data, TYPED, chunk_bytes, piece_bytes)
    assert_the_oracles(found, data, is_typed=True)
