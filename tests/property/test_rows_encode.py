"""Laws of encoding: what is found out of rows together is what is found out of each alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from ddbload.rows import encode
from ddbload.rows.encode import Encoder, request_body
from ddbload.rows.items import Item
from ddbload.rows.parse import Defect, Record
from tests.property.test_rows_items import Sheet, sheets


@dataclass(frozen=True)
class Judged:
    """Rows, and what the builder and the encoder say of each."""

    sheet: Sheet
    encoder: Encoder
    records: list[Record]
    built: list[Item | Defect]
    found: encode.Examined


@st.composite
def judged(draw: st.DrawFn) -> Judged:
    sheet = draw(sheets(rows=draw(st.integers(1, 12)), good=draw(st.booleans())))
    records: list[Record] = [*sheet.rows]
    for place in draw(st.lists(st.integers(0, len(records) - 1), max_size=2)):
        row = sheet.rows[place]
        records[place] = draw(st.sampled_from([row[1:], [*row, "x"], Defect("bad", "")]))
    encoder = Encoder(list(sheet.columns), list(sheet.columns.values()), sheet.table)
    built = [
        record if isinstance(record, Defect) else sheet.builder.build(record) for record in records
    ]
    with mock.patch.object(encode, "MAX_ROW_BYTES", draw(st.sampled_from([100, 400, 600_000]))):
        return Judged(sheet, encoder, records, built, encoder.examine(records))


@given(judged())
def test_what_is_no_item_is_left_to_the_builder(case: Judged) -> None:
    for built, cells in zip(case.built, case.found.cells, strict=True):
        if isinstance(built, Defect):
            assert cells is None


@given(judged())
def test_keys_are_the_builder_s(case: Judged) -> None:
    for built, cells, key in zip(case.built, case.found.cells, case.found.keys, strict=True):
        if cells is not None:
            assert isinstance(built, Item)
            assert key == built.key


@given(judged(), st.randoms(use_true_random=False))
def test_a_body_is_the_plain_one_to_the_byte(case: Judged, rng) -> None:
    places = [place for place, built in enumerate(case.built) if isinstance(built, Item)]
    rng.shuffle(places)
    items = [built for place in places if isinstance(built := case.built[place], Item)]
    rows = [
        cells if (cells := case.found.cells[place]) is not None else item.attributes
        for place, item in zip(places, items, strict=True)
    ]
    if rows:
        body = case.encoder.body(rows)
        assert body == request_body("t", [item.attributes for item in items])
        assert json.loads(body)["ReturnConsumedCapacity"] == "TOTAL"


@given(judged())
def test_units_and_bytes_are_no_less_than_they_are(case: Judged) -> None:
    whole = None not in case.found.cells
    sent = 0
    for place, (built, cells) in enumerate(zip(case.built, case.found.cells, strict=True)):
        if cells is None or not isinstance(built, Item):
            continue
        units = 1 if case.found.units is None else case.found.units[place]
        assert units >= -(-built.size // 1024)
        sent += len(json.dumps(built.attributes, ensure_ascii=False).encode())
    if whole:
        # But for escapes, which the average knows nothing of.
        assert case.found.row_bytes * len(case.records) * 6 >= sent
