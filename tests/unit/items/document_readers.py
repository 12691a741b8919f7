"""Reads lines of JSON as the pipeline does, and compares encoded rows with the builder's items."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ddbload.contracts.column_mapping import ColumnChanges
from ddbload.contracts.run_record import Cursor, KeyAttribute, Table
from ddbload.dynamodb.attribute_values import item_size
from ddbload.items.batch_encoder import MAX_ROW_BYTES
from ddbload.items.document_builder import DocumentRules
from ddbload.items.item_requests import Item, item_of_request
from ddbload.items.row_encoder import DocumentEncoder
from ddbload.rows.blocks import Block, Defect

START = Cursor(1000, 50)


def table(*keys: tuple[str, str], index_keys: Sequence[tuple[str, str, int]] = ()) -> Table:
    """Return a table with these keys: names and types."""
    limits = (2048, 1024)
    return Table(
        "t",
        "id",
        tuple(KeyAttribute(*key, limit) for key, limit in zip(keys, limits, strict=False)),
        tuple(KeyAttribute(*key) for key in index_keys),
    )


BY_ID = table(("id", "S"))


def changes(
    rename: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
    set: Mapping[str, str] | None = None,
) -> ColumnChanges:
    """Return a mapping as a payload has it."""
    return ColumnChanges.of(rename, drop, set)


def lines(*rows: Any) -> bytes:
    """Return rows as lines of JSON; bytes and strings as they are."""
    return b"".join(
        (
            row
            if isinstance(row, bytes)
            else (row if isinstance(row, str) else json.dumps(row)).encode()
        )
        + b"\n"
        for row in rows
    )


def read(data: bytes, rules: DocumentRules) -> list[Item | Defect]:
    """Read every row, encoded together and built one by one: both must be the same."""
    rows = DocumentEncoder(rules)
    block = Block(
        data, START, terminated=data.endswith(b"\n"), line_ends=rows.ends.count_lines(data)
    )
    # Again: some things are remembered from rows that came before.
    rows.read(block)
    places, encoded = rows.read(block)
    assert places.count == len(places.spans) == len(encoded) == len(encoded.keys)
    assert encoded.units is None or len(encoded.units) == len(encoded)
    found: list[Item | Defect] = []
    for row in range(places.count):
        built = rows.build(places.data(row), places.byte(row))
        found.append(built)
        if row in encoded.odd:
            assert isinstance(built, Defect) or built.wire_bytes > MAX_ROW_BYTES // 5
            continue
        assert isinstance(built, Item), built
        put = encoded.puts[row]
        # Octets: JSON of one row has no line end.
        for text in [put] if isinstance(put, str) else put[1]:
            assert "\n" not in text
            text.encode("latin-1")
        assert encoded.keys[row] == built.key
        units = 1 if encoded.units is None else encoded.units[row]
        assert units >= -(-built.size // 1024)
        assert built.wire_bytes <= MAX_ROW_BYTES
        assert type(item_of_request(put)) is type(item_of_request(rows.joiner.request(built)))
        written = item_of_request(put)
        assert list(written) == list(built.attributes)
        assert written == built.attributes
        assert built.size == item_size(built.attributes)
        assert len(json.dumps(built.attributes)) <= built.wire_bytes
    return found


def items(data: bytes, rules: DocumentRules) -> list[Any]:
    """Return the attributes of each row, or the cause and the column of its defect."""
    return [
        built.attributes if isinstance(built, Item) else (built.cause, built.column)
        for built in read(data, rules)
    ]
