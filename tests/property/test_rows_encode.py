"""Laws of encoding: rows encoded together are those built one by one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from ddbload.items import batch_encoder
from ddbload.items.batch_encoder import BatchEncoder, EncodedRows
from ddbload.items.item_requests import BatchJoiner, Item, item_of_request, put_request
from ddbload.rows.blocks import Defect
from ddbload.rows.columns import Columns, ParsedRow, to_octets
from tests.property.sheets import Sheet, sheets
from tests.unit.items.expected_bodies import batch_write_body


@dataclass(frozen=True)
class Judged:
    """Rows, encoded together and built one by one."""

    built: list[Item | Defect]
    encoded: EncodedRows


def _columns(draw: st.DrawFn, records: list[ParsedRow], count: int) -> Columns:
    """Return columns as the reader gives them, which does not know all that it could."""
    fields = [
        [to_octets(cell) for cell in record]
        if isinstance(record, list) and len(record) == count
        else None
        for record in records
    ]
    rows = [row for row in fields if row is not None]
    longest = max((sum(map(len, row)) + count - 1 for row in rows), default=0)
    said = "".join(cell for row in rows for cell in row)
    plain = json.dumps(said, ensure_ascii=False) == f'"{said}"'
    return Columns(
        len(fields),
        [*zip(*rows, strict=True)] or [()] * count,
        {place for place, row in enumerate(fields) if row is None},
        draw(st.sampled_from([None, longest])),
        draw(st.sampled_from([False, plain])),
    )


@st.composite
def judged(draw: st.DrawFn) -> Judged:
    sheet: Sheet = draw(sheets(rows=draw(st.integers(1, 12)), good=draw(st.booleans())))
    records: list[ParsedRow] = [*sheet.rows]
    for place in draw(st.lists(st.integers(0, len(records) - 1), max_size=2)):
        row = sheet.rows[place]
        records[place] = draw(st.sampled_from([row[1:], [*row, "x"], Defect("bad", "")]))
    encoder = BatchEncoder(
        list(sheet.columns), list(sheet.columns.values()), sheet.table, sheet.nulls
    )
    built = [
        record if isinstance(record, Defect) else sheet.builder.build(record) for record in records
    ]
    encoded = EncodedRows([], [], None, 1)
    cut = draw(st.integers(0, len(records)))
    with mock.patch.object(
        batch_encoder, "MAX_ROW_BYTES", draw(st.sampled_from([100, 400, 600_000]))
    ):
        for some in (records[:cut], records[cut:]):
            if some:
                encoded.extend(encoder.encode(_columns(draw, some, len(sheet.columns))))
    return Judged(built, encoded)


@given(judged())
def test_rejected_rows_are_odd(case: Judged) -> None:
    assert len(case.encoded) == len(case.built)
    for place, built in enumerate(case.built):
        if isinstance(built, Defect):
            assert place in case.encoded.odd


@given(judged())
def test_keys_and_items_equal_the_builders(case: Judged) -> None:
    for place, built in enumerate(case.built):
        if place not in case.encoded.odd:
            assert isinstance(built, Item)
            assert case.encoded.keys[place] == built.key
            assert item_of_request(case.encoded.puts[place]) == built.attributes


@given(judged(), st.randoms(use_true_random=False))
def test_body_equals_plain_json_to_the_byte(case: Judged, rng) -> None:
    places = [place for place, built in enumerate(case.built) if isinstance(built, Item)]
    rng.shuffle(places)
    items = [built for place in places if isinstance(built := case.built[place], Item)]
    puts = [
        put_request(item.attributes) if place in case.encoded.odd else case.encoded.puts[place]
        for place, item in zip(places, items, strict=True)
    ]
    assert BatchJoiner("t").body(puts) == batch_write_body("t", [item.attributes for item in items])


@given(judged())
def test_units_and_bytes_are_upper_bounds(case: Judged) -> None:
    sent = 0
    for place, built in enumerate(case.built):
        if place in case.encoded.odd or not isinstance(built, Item):
            continue
        units = 1 if case.encoded.units is None else case.encoded.units[place]
        assert units >= -(-built.size // 1024)
        # Without blanks, as it is sent: in a long list they are more than what is around an item.
        item = json.dumps(built.attributes, ensure_ascii=False, separators=(",", ":"))
        sent += len(item.encode())
    assert case.encoded.row_bytes * len(case.encoded) >= sent
