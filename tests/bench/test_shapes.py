"""Generated files are reproducible and fit their tables."""

from __future__ import annotations

import csv
from decimal import Decimal

import pytest

from bench.shapes import SHAPES

ROWS = 2000


@pytest.fixture(params=SHAPES.values(), ids=list(SHAPES))
def shape(request):
    return request.param


def rows_of(path, shape):
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter=shape.delimiter, strict=True))
    if shape.header:
        assert rows.pop(0) == list(shape.columns)
    return rows


def test_file_is_equal_for_the_same_seed(shape, make_file, tmp_path):
    path, _ = make_file(shape, ROWS)
    again = tmp_path / "again"
    shape.write(again, ROWS, 1)
    assert path.read_bytes() == again.read_bytes()
    other, _ = make_file(shape, ROWS, seed=2)
    assert path.read_bytes() != other.read_bytes()


def test_smaller_file_is_a_prefix_of_a_larger_one(shape, make_file):
    small, _ = make_file(shape, ROWS // 10)
    large, _ = make_file(shape, ROWS)
    assert large.read_bytes().startswith(small.read_bytes())


def test_rows_have_unique_keys_and_valid_values(shape, make_file):
    path, due = make_file(shape, ROWS)
    rows = rows_of(path, shape)
    assert len(rows) == due.items == ROWS
    names = list(shape.columns)
    keys = {tuple(row[names.index(key)] for key in shape.keys) for row in rows}
    assert len(keys) == ROWS
    assert all(all(key) for key in keys)
    for row in rows:
        for text, kind in zip(row, shape.columns.values(), strict=True):
            assert kind != "N" or not text or Decimal(text).is_finite()
            assert kind != "BOOL" or text in ("true", "false")


def test_ngrams_rows_are_narrow_and_sorted(make_file):
    shape = SHAPES["ngrams"]
    path, _ = make_file(shape, ROWS)
    rows = rows_of(path, shape)
    assert len(shape.columns) == 5
    assert 24 < path.stat().st_size / ROWS < 30
    keys = [(row[0], int(row[1])) for row in rows]
    assert keys == sorted(keys)
    # Each partition key has many consecutive rows.
    assert len({word for word, _ in keys}) < ROWS / 50


def test_wide_rows_have_all_types_and_empty_cells(make_file):
    shape = SHAPES["wide"]
    path, _ = make_file(shape, ROWS)
    assert len(shape.columns) == 20
    assert set(shape.columns.values()) == {"S", "N", "BOOL"}
    assert any("" in row for row in rows_of(path, shape))


def test_quoted_rows_have_awkward_characters(make_file):
    shape = SHAPES["quoted"]
    path, _ = make_file(shape, ROWS)
    bodies = [row[3] for row in rows_of(path, shape)]
    for awkward in ('"', ",", "\n", "é", "語", "🚀"):
        assert sum(awkward in body for body in bodies) > ROWS / 10
