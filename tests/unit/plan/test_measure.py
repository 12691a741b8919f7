"""Sizes and index entries, compared with those that the fake table counts."""

from __future__ import annotations

import csv
import io
import random

import pytest

from ddbload.aws.table_description import describe_table_with_response
from ddbload.contracts.payload import Payload
from ddbload.plan.table_facts import table_indexes
from ddbload.reading.measure import Measure, MeasuredRows
from ddbload.reading.row_batches import iter_row_batches
from ddbload.reading.row_blocks import RunReader
from ddbload.steps.prepare import prepare_run
from tests.fakes.dynamodb_values import item_size
from tests.unit.steps.world import TABLE, World

INDEXES = [
    {
        "IndexName": "all",
        "KeySchema": [{"AttributeName": "team", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    },
    {
        "IndexName": "keys",
        "KeySchema": [
            {"AttributeName": "team", "KeyType": "HASH"},
            {"AttributeName": "year", "KeyType": "RANGE"},
        ],
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    },
    {
        "IndexName": "some",
        "KeySchema": [{"AttributeName": "year", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["text"]},
    },
    {
        "IndexName": "absent",
        "KeySchema": [{"AttributeName": "nowhere", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    },
]
COLUMNS = ["text", "id", "year", "team", "ok", "größe"]
TEXTS = ["", "a", "é" * 40, "x" * 700, "y" * 1024, "日本", 'say "no"', "line\nend", "z" * 5000]
# Of an odd number of digits: the table rounds those of an even one in another way.
NUMBERS = ["", "0", "-1", "1815", "1e3", "+7", "0.50", "10", "100", "12345678.912", "-12"]


def make_table(world: World) -> None:
    names = {"id": "S", "team": "S", "year": "N", "nowhere": "S"}
    world.dynamodb.create_table(
        TableName=TABLE,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": kind} for name, kind in names.items()
        ],
        BillingMode="PAY_PER_REQUEST",
        GlobalSecondaryIndexes=INDEXES,
    )


def file_of(seed: int) -> bytes:
    rng = random.Random(seed)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for n in range(80):
        row = [
            rng.choice(TEXTS),
            f"id-{n}",
            rng.choice(NUMBERS),
            rng.choice(["", "a", "b", "a team with a name"]),
            rng.choice(["", "true", "No", "1"]),
            rng.choice(NUMBERS),
        ]
        if rng.random() < 0.05:
            row[rng.randrange(6)] = ""
        if rng.random() < 0.03:
            row[2] = "no number"
        writer.writerow(row[: 5 if rng.random() < 0.03 else 6])
    return out.getvalue().encode()


def measured(world: World, *, by_item: bool) -> list[MeasuredRows]:
    context = world.context()
    payload = Payload.from_json(world.payload)
    ledger = context.ledger("plan")
    table, answer = describe_table_with_response(world.dynamodb, TABLE)
    record = prepare_run("plan", payload, ledger, context, table=table).record
    indexes = table_indexes(table, answer, on_demand=True)
    measure = Measure.of(record, indexes)
    if by_item:
        measure._by_column = False
    parts = iter_row_batches(RunReader(record), ledger, context, piece_bytes=900)
    return [measure.measure(part) for part in parts]


def joined(parts: list[MeasuredRows]) -> dict:
    return {
        "sizes": sorted(size for part in parts for size in part.sizes),
        "keys": sorted(key for part in parts for key in part.keys),
        "entries": [
            sorted(size for part in parts for size in part.entries[n]) for n in range(len(INDEXES))
        ],
        "partitions": [[len(part.partitions[n]) for part in parts] for n in range(len(INDEXES))],
        "rejected": [[(row, each.cause) for row, each in part.rejected] for part in parts],
    }


@pytest.mark.parametrize("seed", range(8))
def test_measured_units_equal_units_of_table(seed):
    world = World(file_of(seed), types={"year": "N", "ok": "BOOL", "größe": "N"}, make_table=False)
    make_table(world)
    one = joined(measured(world, by_item=False))
    assert one == joined(measured(world, by_item=True))
    world.run()
    items = world.items
    table = world.dynamodb._tables[TABLE]
    assert one["sizes"] == sorted(map(item_size, items))
    for entries, index in zip(one["entries"], table.indexes, strict=True):
        held = [index.entry(item) for item in items]
        assert entries == sorted(0 if entry is None else item_size(entry) for entry in held)
    assert sum(map(len, one["rejected"])) == len(world.rejects())
    assert len(items) < 80
