"""Sizes and index entries of a plan, compared with those that the fake table counts."""

from __future__ import annotations

import csv
import io
import random

import pytest

from ddbload.planning.make_plan import make_plan
from tests.fakes.dynamodb_tables import keyed
from tests.fakes.dynamodb_values import item_size
from tests.unit.steps.world import TABLE, World

INDEXES = {
    "all": (["team"], {"ProjectionType": "ALL"}),
    "keys": (["team", "year"], {"ProjectionType": "KEYS_ONLY"}),
    "some": (["year"], {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["text"]}),
    "absent": (["nowhere"], {"ProjectionType": "ALL"}),
}
COLUMNS = ["text", "id", "year", "team", "ok", "größe"]
TEXTS = ["", "a", "é" * 40, "x" * 700, "y" * 1024, "日本", 'say "no"', "line\nend", "z" * 5000]
# Of an odd number of digits: the table rounds those of an even one in another way.
NUMBERS = ["", "0", "-1", "1815", "1e3", "+7", "0.50", "10", "100", "12345678.912", "-12"]


def make_table(world: World) -> None:
    names = {"id": "S", "team": "S", "year": "N", "nowhere": "S"}
    table = keyed(TABLE, **names)
    table["KeySchema"] = table["KeySchema"][:1]
    indexes = [
        {
            "IndexName": name,
            "KeySchema": keyed("", **dict.fromkeys(keys, ""))["KeySchema"],
            "Projection": projection,
        }
        for name, (keys, projection) in INDEXES.items()
    ]
    world.dynamodb.create_table(**table, GlobalSecondaryIndexes=indexes)


def file_of(seed: int) -> bytes:
    rng = random.Random(seed)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for n in range(80):
        year, size = rng.choice(NUMBERS), rng.choice(NUMBERS)
        team, ok = rng.choice(["", "a", "a team with a name"]), rng.choice(["", "true", "No", "1"])
        row = [rng.choice(TEXTS), f"id-{n}", year, team, ok, size]
        if rng.random() < 0.03:
            row[2] = "no number"
        writer.writerow(row[: 5 if rng.random() < 0.03 else 6])
    return out.getvalue().encode()


@pytest.mark.parametrize("seed", range(8))
def test_planned_units_equal_units_of_table(seed):
    world = World(file_of(seed), types={"year": "N", "ok": "BOOL", "größe": "N"}, make_table=False)
    make_table(world)
    plan = make_plan(world.payload, world.context()).to_json()
    report = world.run()
    assert plan["items"]["bytes"] == sum(map(item_size, world.items))
    units = {each["name"]: each["units"] for each in plan["write_units"]["indexes"]}
    for index in world.dynamodb._tables[TABLE].indexes:
        held = [index.entry(item) for item in world.items]
        sizes = [item_size(entry) for entry in held if entry is not None]
        assert units[index.name] == sum(-(-size // 1024) for size in sizes)
    assert plan["write_units"]["total"] == report.work.consumed_wcu
    assert plan["rows"]["rejected"] == report.rows.rejected > 0


@pytest.mark.parametrize(
    ("mapping", "nulls"),
    [
        ({}, {}),
        ({"drop": ["text"]}, {}),
        ({"set": {"text": "{id}-{ok}"}}, {}),
        ({"rename": {"text": "note"}}, {"markers": ["none"], "policy": "omit"}),
        ({}, {"markers": ["none"], "policy": "null"}),
    ],
)
def test_planned_bytes_of_plain_rows_equal_bytes_of_table(mapping, nulls):
    rows = [
        f"{'none' if n % 7 == 0 else 'a' * n},id-{n},{2 * n + 101},,true,{n}.50" for n in range(80)
    ]
    file = "\n".join([",".join(COLUMNS), *rows, ""]).encode()
    more = {"mapping": mapping, "nulls": nulls}
    world = World(file, types={"year": "N", "ok": "BOOL"}, more=more, make_table=False)
    make_table(world)
    plan = make_plan(world.payload, world.context()).to_json()
    world.run()
    sizes = [item_size(item) for item in world.items]
    found = plan["items"]
    assert (found["count"], found["bytes"]) == (len(sizes), sum(sizes))
    assert (found["smallest"], found["largest"]) == (min(sizes), max(sizes))
