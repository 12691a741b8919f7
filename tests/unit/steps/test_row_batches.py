"""One pass over a source gives the rows that the import would see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ddbload.contracts.payload import Payload
from ddbload.errors import UnterminatedQuote
from ddbload.items.encode.request_json import item_of_request
from ddbload.items.item_builder import Item
from ddbload.reading.row_batches import RowBatch, iter_row_batches
from ddbload.reading.row_blocks import RunReader
from ddbload.steps.prepare import prepare_run
from tests.unit.steps.world import RUN, World

ROWS = "".join(f'{n},"name\n{n}"\n' for n in range(50))
BAD = '\n,none\nx,1,2\n7,"a"b\n'


def walked(world: World, **options) -> list[RowBatch]:
    return list(walking(world, **options))


def walking(world: World, **options) -> Iterator[RowBatch]:
    context = world.context()
    payload = Payload.from_json(world.payload)
    ledger = context.ledger(RUN)
    reading = RunReader(prepare_run(RUN, payload, ledger, context).record)
    yield from iter_row_batches(reading, ledger, context, **options)


@pytest.mark.parametrize("piece_bytes", [1, 7, 1000, 1_000_000])
def test_row_batches_have_items_and_rejects_of_import(piece_bytes):
    world = World(f"id,name\n{ROWS}{BAD}".encode())
    items, defects = [], []
    for part in walked(world, piece_bytes=piece_bytes):
        for row in range(part.count):
            if row not in part.encoded.odd:
                items.append(item_of_request(part.encoded.puts[row]))
                continue
            built = part.build(row)
            if isinstance(built, Item):
                items.append(built.attributes)
            else:
                at = part.positions.position(row)
                defects.append((at.line, at.byte, part.column_of(built), built.cause))
    world.run()
    assert sorted(map(str, items)) == sorted(map(str, world.items))
    assert defects == [
        (each["line"], each["byte"], each["column"], each["cause"]) for each in world.rejects()
    ]
    assert len(defects) == 3


def test_row_batches_count_bytes_read():
    data = f"id,name\n{ROWS}".encode()
    parts = walked(World(data), piece_bytes=100)
    assert sum(part.bytes for part in parts) == len(data) - len("id,name\n")


def test_row_batches_end_between_pieces():
    parts = walked(World(f"id,name\n{ROWS}".encode()), piece_bytes=200, must_end=lambda: True)
    assert 0 < sum(part.count for part in parts) < 50


def test_row_batches_refuse_unclosed_quote():
    with pytest.raises(UnterminatedQuote, match="line 2, byte 8"):
        walked(World(b'id,name\n1,"a\n2,b\n'))


def test_row_batches_include_rows_before_unclosed_quote():
    found = []
    with pytest.raises(UnterminatedQuote):
        found.extend(walking(World(b'id,name\n1,a\n2,"b\n3,c\n')))
    assert [part.count for part in found] == [1]
