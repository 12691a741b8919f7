"""Tests that each kind of malformed row is reported, and that no good row is lost."""

from __future__ import annotations

from ddbload.contracts.column_mapping import Dialect
from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.items.item_requests import Item, ItemBuilder
from ddbload.rows.blocks import Defect
from tests.unit.rows.row_readers import read_all

TABLE = Table("books", "id", (KeyAttribute("id", "S", 2048),))
COLUMNS = {"id": "S", "year": "N", "sold": "BOOL"}

FILE = [
    (b"a,1999,yes", None, None),
    (b"b,1999", "field_count", None),
    (b"c,1999,yes,", "field_count", None),
    (b"", None, None),
    (b",1999,yes", "empty_key", 0),
    (b"d" * 2049 + b",1999,yes", "key_too_long", 0),
    (b"e,MCMXCIX,yes", "not_a_number", 1),
    (b"f," + b"1" * 39 + b",yes", "number_too_long", 1),
    (b"g,1e200,yes", "number_out_of_range", 1),
    (b"h,1999,perhaps", "not_a_boolean", 2),
    (b"caf\xe9,1999,yes", "bad_encoding", 0),
    (b'"i"j,1999,yes', "bad_quote", 0),
    (b'"k\nk","2001","no"', None, None),
    (b'l,1999,"yes', "unterminated_quote", 2),
]


def test_reject_line_has_position_and_column_for_every_cause() -> None:
    data = b"\n".join(raw for raw, _, _ in FILE)
    builder = ItemBuilder(list(COLUMNS), list(COLUMNS.values()), TABLE)
    good, bad = [], []
    for read in read_all(data, Dialect()):
        built = read.record if isinstance(read.record, Defect) else builder.build(read.record)
        if isinstance(built, Item):
            good.append(built.key)
        else:
            bad.append((read.line, built.cause, built.column))
    assert good == [("a",), ("k\nk",)]
    # "k" takes two lines, 13 and 14.
    lines = [*range(1, 14), 15]
    assert bad == [
        (line, cause, column)
        for line, (_, cause, column) in zip(lines, FILE, strict=True)
        if cause is not None
    ]
