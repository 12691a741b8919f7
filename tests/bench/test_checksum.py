"""The checksum detects every difference between items, in any order."""

from __future__ import annotations

import csv

import pytest

from bench.checksum import ItemChecksum, expected_checksum
from bench.shapes import SHAPES

ITEMS = [
    {"id": {"N": "1"}, "text": {"S": "a"}},
    {"id": {"N": "2"}, "text": {"S": "b"}},
    {"id": {"N": "3"}, "yes": {"BOOL": True}},
]


def checksum_of(items):
    made = ItemChecksum()
    for item in items:
        made.add(item)
    return made


def test_checksum_ignores_the_order():
    swapped = [dict(reversed(item.items())) for item in reversed(ITEMS)]
    assert checksum_of(ITEMS) == checksum_of(swapped)
    assert checksum_of(ITEMS).items == 3
    assert len(checksum_of(ITEMS).checksum) == 32


@pytest.mark.parametrize("text", ["1.0", "1E0", "0.1e1", "+1", "01.00", "10E-1"])
def test_checksum_compares_numbers_by_value(text):
    assert checksum_of([{"id": {"N": text}}]) == checksum_of([{"id": {"N": "1"}}])


def test_checksum_keeps_38_digits():
    long = "1234567890123456789012345678901234567"
    assert checksum_of([{"id": {"N": long + "1"}}]) != checksum_of([{"id": {"N": long + "2"}}])


@pytest.mark.parametrize(
    "other",
    [
        {"id": {"N": "4"}, "text": {"S": "a"}},
        {"id": {"S": "1"}, "text": {"S": "a"}},
        {"id": {"N": "1"}, "text": {"S": "a "}},
        {"id": {"N": "1"}, "test": {"S": "a"}},
        {"id": {"N": "1"}},
    ],
)
def test_checksum_changes_with_one_item(other):
    assert checksum_of([other, *ITEMS[1:]]).checksum != checksum_of(ITEMS).checksum


def test_checksum_changes_when_values_are_swapped():
    one, two, three = ITEMS
    swapped = [{**one, "text": two["text"]}, {**two, "text": one["text"]}, three]
    assert checksum_of(swapped).checksum != checksum_of(ITEMS).checksum


def test_checksum_changes_when_an_item_is_repeated():
    assert checksum_of([ITEMS[0], ITEMS[0], ITEMS[2]]).checksum != checksum_of(ITEMS).checksum


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_expected_checksum_agrees_with_csv_reader(shape, make_file):
    path, due = make_file(shape, 500)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter=shape.delimiter))[shape.header :]
    items = [
        {
            name: {kind: text == "true" if kind == "BOOL" else text}
            for (name, kind), text in zip(shape.columns.items(), row, strict=True)
            if text
        }
        for row in rows
    ]
    assert due == checksum_of(items)


@pytest.mark.parametrize("text", ['1,"open', '1,"a"b,c,d,e,f\n', "1,2\n"])
def test_expected_checksum_refuses_a_file_of_another_shape(text, tmp_path):
    path = tmp_path / "broken.csv"
    path.write_text("id,author,title,body,stars,tags\n" + text)
    with pytest.raises(ValueError):
        expected_checksum(path, SHAPES["quoted"])
