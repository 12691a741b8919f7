"""Items as one text are those of the requests, row by row."""

from __future__ import annotations

import random

import pytest

from ddbload.contracts.payload import NULL, OMIT
from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.items.batch_encoder import BatchEncoder
from ddbload.rows.columns import Columns, to_octets

NAMES = ["text", "id", "n", "ok", "größe", "list"]
TYPES = ["S", "S", "N", "BOOL", "S", "L"]
CELLS = {
    "S": ["", "a", 'say "é"', "back\\slash", "line\nend", "x" * 900, "{}}", "日本"],
    "N": ["", "1", "-2.50", "1e5", "007", "12345678901234567890123456789012345678901"],
    "BOOL": ["", "true", "no", "maybe"],
    "L": ["", "[]", '[1,"a"]', "[1"],
}
KEYED = Table("t", "i", (KeyAttribute("id", "S", 2048),))
BARE = Table("none", "", ())


@pytest.mark.parametrize("nulls", [OMIT, NULL])
@pytest.mark.parametrize("table", [KEYED, BARE])
def test_lines_are_the_items_of_the_requests(table: Table, nulls: str) -> None:
    rng = random.Random(1)
    encoder = BatchEncoder(NAMES, TYPES, table, nulls)
    encoded_at_once = 0
    for _ in range(600):
        # Few cells of few kinds, so that many blocks have good rows alone.
        used = {kind: rng.sample(cells, rng.randint(1, 2)) for kind, cells in CELLS.items()}
        rows = rng.randint(0, 4)
        cells = [[to_octets(rng.choice(used[kind])) for _ in range(rows)] for kind in TYPES]
        lines = encoder.encode_lines(Columns(rows, cells))
        encoded = encoder.encode(Columns(rows, cells))
        if lines is None:
            continue
        encoded_at_once += 1
        assert not encoded.odd
        begin, end = '{"PutRequest":', "}"
        items = [put[len(begin) : -len(end)] for put in encoded.puts]
        assert lines == "".join(f"{item}\n" for item in items)
        assert '{"Item":{}}' not in items
    assert encoded_at_once > 50
