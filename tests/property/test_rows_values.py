"""Rows of Parquet encoded by column give the requests and defects of their lines of JSON."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from ddbload.contracts.column_mapping import ColumnChanges
from ddbload.contracts.payload import NULL_POLICIES
from ddbload.contracts.run_record import Cursor, KeyAttribute, Table
from ddbload.dynamodb.modes import DELETE, INSERT, PUT, UPDATE
from ddbload.items.document_builder import DocumentRules, item_line
from ddbload.items.row_encoder import DocumentEncoder
from ddbload.rows.blocks import Block, Defect, RowBytes
from ddbload.source.parquet.parquet_lines import ParquetLines
from tests.unit.source.memory_source import MemorySource

TEXTS = st.sampled_from(["", "a", "é", 'say "no"', "back\\slash", "line\nend", "12", "1e5", "true"])
FLOATS = st.sampled_from([0.5, -0.0, 1e20, 1e-7, float("nan"), 1e300])
VALUES = {
    pa.string(): TEXTS,
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): FLOATS,
    pa.decimal128(38, 2): st.sampled_from([Decimal("0.00"), Decimal("1.50"), Decimal(10**35)]),
    pa.bool_(): st.booleans(),
    pa.binary(): st.binary(max_size=4),
    pa.date32(): st.just(date(2024, 2, 29)),
    pa.timestamp("us", "UTC"): st.just(datetime(2024, 2, 29, 1, 2, 3, 4, UTC)),
    pa.list_(pa.float64()): st.lists(FLOATS | st.none(), max_size=2),
    pa.map_(pa.string(), pa.int8()): st.lists(
        st.tuples(st.sampled_from(["a", "b", ""]), st.none() | st.just(7)), max_size=2
    ),
    pa.struct([("a", pa.string())]): st.fixed_dictionaries({"a": TEXTS | st.none()}),
    pa.null(): st.none(),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    count = draw(st.integers(1, 5))
    columns = {}
    for name in ("id", "n", "s", "x"):
        simple = name == "id" or draw(st.booleans())
        kind = draw(st.sampled_from(list(VALUES)[:3] if simple else list(VALUES)))
        values = VALUES[kind] if draw(st.booleans()) else VALUES[kind] | st.none()
        columns[name] = pa.array(draw(st.lists(values, min_size=count, max_size=count)), kind)
    return pa.table(columns)


@st.composite
def rules(draw: st.DrawFn) -> DocumentRules:
    keys = [KeyAttribute("id", draw(st.sampled_from("SN")), draw(st.sampled_from([4, 2048])))]
    index = [KeyAttribute("s", draw(st.sampled_from("SNB")), 4)] if draw(st.booleans()) else []
    types = st.dictionaries(st.sampled_from("nsx"), st.sampled_from(["S", "N", "BOOL", "L", "SS"]))
    changes = [
        ColumnChanges(),
        ColumnChanges(),
        ColumnChanges(rename={"n": "new"}),
        ColumnChanges(drop=frozenset({"x"})),
    ]
    return DocumentRules(
        table=Table("t", "id", tuple(keys), tuple(index)),
        types=draw(types),
        changes=draw(st.sampled_from(changes)),
        nulls=draw(st.sampled_from(NULL_POLICIES)),
        markers=frozenset("a") if draw(st.integers(0, 4)) == 4 else frozenset(),
        mode=draw(st.sampled_from([PUT, INSERT, UPDATE, PUT, DELETE])),
        typed=True,
        envelope=item_line,
    )


def _results(data: bytes, rules: DocumentRules) -> list[object]:
    encoder = DocumentEncoder(rules)
    places, encoded = encoder.read(Block(data, Cursor(0, 1)))
    found: list[object] = []
    for row in range(places.count):
        request, key = encoded.puts[row], encoded.keys[row]
        if row in encoded.odd:
            built = encoder.build(places.data(row), places.byte(row))
            if isinstance(built, Defect):
                found.append(built)
                continue
            request, key = encoder.joiner.request(built), built.key
        found.append((encoder.joiner.body([request]), key))
    return found


@settings(max_examples=2 * settings.default.max_examples)
@given(tables(), rules())
def test_values_give_what_their_lines_give(table: pa.Table, rules: DocumentRules) -> None:
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    (rows,) = ParquetLines(MemorySource(buffer.getvalue())).stream(0, None, 1 << 20)
    assert isinstance(rows, RowBytes)
    lines = bytes(rows)
    assert _results(rows, rules) == _results(lines, rules)
    # Values are read once, and a row by its line from then on.
    assert rows.values is None
    assert _results(rows, rules) == _results(lines, rules)


def test_write_units_of_values_that_look_like_members() -> None:
    table = pa.table({"id": ["a"], **{str(place): ['x":{'] for place in range(900)}})
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    (rows,) = ParquetLines(MemorySource(buffer.getvalue())).stream(0, None, 1 << 20)
    keyed = Table("t", "id", (KeyAttribute("id", "S", 2048),))
    encoder = DocumentEncoder(DocumentRules(table=keyed, typed=True, envelope=item_line))
    _, encoded = encoder.read(Block(rows, Cursor(0, 1)))
    item = encoder.build(bytes(rows), 0)
    assert not isinstance(item, Defect)
    assert encoded.units is not None
    assert encoded.units[0] * 1024 >= item.size
