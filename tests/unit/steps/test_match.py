"""Objects whose columns stand in another order, or are fewer, are loaded by name."""

from __future__ import annotations

import csv
import gzip
import io
import random

import pytest

from ddbload import errors
from tests.unit.steps.world import World
from tests.unit.steps.worlds import ManyObjects

COLUMNS = ("id", "a", "b", "long name", "ü")


def shuffled_files(rng: random.Random, count: int) -> dict[str, bytes]:
    """Files with any order and choice of columns: the first has all, each has the key."""
    files = {}
    for number in range(count):
        columns = list(COLUMNS)
        if number:
            rng.shuffle(columns)
            left_out = rng.sample(COLUMNS[1:], rng.choice((0, 0, 1, 3)))
            columns = [each for each in columns if each not in left_out]
        out = io.StringIO(newline="")
        writer = csv.writer(out, lineterminator=rng.choice(("\n", "\r\n")))
        writer.writerow(columns)
        for row in range(rng.choice((0, 1, 2, 30))):
            # Each cell tells its column, so that no other could hold it.
            cells = [f"{name}-{number}-{row}" for name in columns]
            cells = [
                rng.choice((cell, cell, cell + ',"\n', "")) if name != "id" else cell
                for name, cell in zip(columns, cells, strict=True)
            ]
            # A row with a field too many, or too few, is rejected.
            writer.writerow(rng.choice((cells,) * 9 + ([*cells, "more"], cells[:-1])))
        content = out.getvalue().encode()
        files[f"{number:03d}.csv"] = gzip.compress(content) if rng.random() < 0.2 else content
    return files


def by_dict_reader(files: dict[str, bytes]) -> tuple[list[dict[str, str]], int]:
    """Items and the number of rejects, by the standard library's reader of each file."""
    items, rejects = [], 0
    for _, content in sorted(files.items()):
        plain = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
        for row in csv.DictReader(io.StringIO(plain.decode(), newline="")):
            if None in row or None in row.values():
                rejects += 1
            else:
                items.append({name: cell for name, cell in row.items() if cell})
    return sorted(items, key=lambda item: item["id"]), rejects


def loaded(world: World) -> tuple[list[dict[str, str]], int]:
    items = [{name: value["S"] for name, value in item.items()} for item in world.items]
    return sorted(items, key=lambda item: item["id"]), len(world.rejects())


def small_blocks(monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
    monkeypatch.setattr("ddbload.rows.blocks.BLOCK_BYTES", 32)
    monkeypatch.setattr("ddbload.steps.chunker.BLOCK_BYTES", 32)
    small = rng.choice((0, 50, 10**6))
    monkeypatch.setattr("ddbload.reading.open_sources.READ_WHOLE_BYTES", small)


@pytest.mark.parametrize("seed", range(8))
def test_any_order_of_columns_gives_items_of_dict_reader(seed, monkeypatch):
    rng = random.Random(seed)
    files = shuffled_files(rng, 6)
    options = {
        "chunk_bytes": rng.choice((1, 60, 500, 10**6)),
        "scan": rng.choice(("whole", "edges")),
        "mode": rng.choice(("put", "insert")),
    }
    small_blocks(monkeypatch, rng)
    world = ManyObjects(files=files, options=options)
    report = world.run(rng.choice((12.5, 60.5)))
    assert loaded(world) == by_dict_reader(files)
    assert report.rows.read == report.rows.written + report.rows.rejected


def test_reject_of_other_order_names_columns_of_its_row():
    world = ManyObjects(files={"1.csv": b"id,a\n1,x\n", "2.csv": b"a,id\nx,\n\xff,2\n"})
    world.run()
    first, second = world.rejects()
    assert (first["column"], first["raw"], first["columns"]) == ("id", "x,", ["a", "id"])
    assert (second["column"], second["cause"]) == ("a", "bad_encoding")


def test_header_with_a_byte_order_mark_repeats_the_columns_in_any_order():
    joined = b"\xef\xbb\xbfa,id\nx,1\n\xef\xbb\xbfa,id\n\xef\xbb\xbfy,2\n"
    world = ManyObjects(files={"1.csv": b"id,a\n0,x\n", "2.csv": joined})
    world.run()
    assert [each["cause"] for each in world.rejects()] == ["repeats_header"]
    assert [each["a"] for each in loaded(world)[0]] == ["x", "x", "\ufeffy"]


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (b"a,b\nx,y\n", "no column 'id', which the table's key is made from"),
        (b"id,a,secret\n", "has not, column 3 of 3"),
        (b"id,A,b\n", "column 2 of 3; 'a' is one, and names are compared exactly"),
        (b"secret,id,a,secret\n", "column 1 twice"),
        (b"id,a,\n", "column 3 of 3, which has no name"),
        (b"7,secret,text\n8,x,y\n", "its first row may be no header"),
    ],
)
def test_object_that_cannot_be_matched_is_refused_by_name(second, words):
    world = ManyObjects(files={"1.csv": b"id,a,b\n1,x,y\n", "2.csv": second})
    with pytest.raises(errors.HeaderMismatch, match=r"s3://bucket/many/2\.csv.*" + words) as raised:
        world.preflight()
    assert "secret" not in str(raised.value)
    assert world.items == []


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (b"id,secret,a\n", "another column 2 than the first object, which has 'a': .*--match name"),
        (b"id,a\n", "ends before column 3, which is 'b' in the first"),
        (b"id,a,b,secret\n", "has 4 columns, and the first object has 3"),
        (b"7,secret,text\n", "has 3 columns with other names"),
    ],
)
def test_match_by_position_names_first_column_that_differs(second, words):
    files = {"1.csv": b"id,a,b\n1,x,y\n", "2.csv": second}
    world = ManyObjects(files=files, source={"match": "position"})
    with pytest.raises(errors.HeaderMismatch, match=words) as raised:
        world.preflight()
    assert "secret" not in str(raised.value)
