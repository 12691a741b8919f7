"""The law of splits: in whatever ranges and pieces a file is read, its rows are the whole file's.

By the oracles, of any format that is split. Thousands of small files, made by a seed: nothing is
shrunk, so that there is time for many.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import settings

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.payload import Payload
from ddbload.contracts.run_record import Cursor, KeyAttribute, RunRecord, Table
from ddbload.contracts.source import CSV, DYNAMODB_EXPORT, DYNAMODB_JSON, JSON, Source
from ddbload.items.item_requests import item_of_request
from ddbload.reading.row_blocks import RunReader
from ddbload.rows.blocks import Block, BlockSplitter, Defect
from tests.oracle import csv_machine, json_machine
from tests.property.document_files import Maker

GROUPS = 20
CASES = settings.default.max_examples * 80 // GROUPS
"""Files of a group: 12,000 in all groups together, more when `make property` has more cases."""
COLUMNS = ("id", "a")
TABLE = Table("t", "id", (KeyAttribute("id", "S", 2048),))


Row = tuple[int, int, Any]
"""Line and byte of a row, and its item, or None for a reject."""


@dataclass(frozen=True)
class Format:
    """Format of generated files, with its reader and its oracle."""

    source: Source
    file: Callable[[random.Random], bytes]
    rows: Callable[[bytes], list[Row]]
    """Function that returns the rows of a file, by the oracle."""

    @cache  # noqa: B019 - there are a few of them
    def reading(self) -> RunReader:
        """Return a reader of the format's rows."""
        columns = COLUMNS if self.source.kind.has_columns else ()
        payload = Payload(self.source, "t")
        types = ("S",) * len(columns)
        record = RunRecord(
            "r", payload, {}, 0, Cursor(0, 1), columns, types, TABLE, 1, 1, 0.0, "asked"
        )
        return RunReader(record)


def delimited(**marks: Any) -> Format:
    """Return delimited text as a format."""
    source = Source(format=CSV, **marks)
    delimiter, quote, escape = source.delimiter, source.quote, source.escape
    common = ["x", "é", " ", "1", delimiter, delimiter, "\n", "\n", "\r\n", "\r"]
    common += [mark for mark in (quote, quote, quote, escape, escape, source.comment) if mark]
    whole = [f"k{delimiter}v\n", f"k{delimiter}v\r\n", delimiter[0]]
    if quote is not None:
        whole += [f"{quote}a{quote * 2}\n{delimiter}{quote}{delimiter}w\n", f"{delimiter}{quote}"]
    pieces = [piece.encode(source.encoding) for piece in common + whole] + [b"\xff"]

    def file(rng: random.Random) -> bytes:
        return b"".join(rng.choices(pieces, k=rng.randint(0, 24)))

    def rows(data: bytes) -> list[Row]:
        found = csv_machine.read_rows(
            data, delimiter, quote, escape, source.comment, source.encoding
        )
        return [(row.line, row.byte, _item(row)) for row in found]

    return Format(source, file, rows)


def _item(row: csv_machine.Row) -> Any:
    if row.defect is not None or len(row.fields) != len(COLUMNS) or not row.fields[0]:
        return None
    return {name: {"S": cell} for name, cell in zip(COLUMNS, row.fields, strict=True) if cell}


def documents(name: str) -> Format:
    """Return lines of JSON as a format.

    Other laws check items against the oracle: here they are whatever the builder makes.
    """

    def file(rng: random.Random) -> bytes:
        return Maker(rng.getrandbits(32)).file(typed=name != JSON)

    def rows(data: bytes) -> list[Row]:
        return [(row.line, row.byte, ...) for row in json_machine.read_rows(data)]

    return Format(Source(format=name), file, rows)


FORMATS = {
    "csv": delimited(),
    "tsv": delimited(delimiter="\t"),
    "unquoted": delimited(quote=None),
    "semicolons, apostrophes": delimited(delimiter=";", quote="'"),
    "a delimiter that overlaps itself": delimited(delimiter="||"),
    "a comma and a space": delimited(delimiter=", "),
    "escapes": delimited(escape="\\"),
    "escapes without quotes": delimited(quote=None, escape="\\", delimiter="\t"),
    "comments": delimited(comment="#"),
    "everything": delimited(delimiter="||", quote="'", escape="\\", comment="--"),
    "latin-1": delimited(encoding="latin-1"),
    "cp1252 with escapes": delimited(encoding="cp1252", escape="\\"),
    "json": documents(JSON),
    "dynamodb-json": documents(DYNAMODB_JSON),
    "exports": documents(DYNAMODB_EXPORT),
}


def chunks_of(data: bytes, reading: RunReader, rng: random.Random) -> Iterator[Chunk]:
    """Return ranges that end at the first row end from some place on, as preflight cuts them."""
    ends, start, line = reading.boundaries, 0, 1
    while start < len(data):
        target = start + rng.choice((1, 1, 5, 20))
        end = 0
        if target <= len(data):
            end = ends.first_from(data, target, start=start, final=True)
        end = end or len(data)
        yield Chunk(0, start, end, line)
        line += ends.count_lines(data, start, end)
        start = end


def pieces_of(data: bytes, rng: random.Random) -> Iterator[bytes]:
    most = rng.choice((1, 3, 16, 64))
    while data:
        size = rng.randint(1, most)
        yield data[:size]
        data = data[size:]


def read(data: bytes, start: Cursor, reading: RunReader, rng: random.Random) -> list[Row]:
    """Read a range's rows: line, byte, and item or None."""
    found: list[Row] = []
    cutter = BlockSplitter(reading.boundaries, start, 10**6)
    held = b""
    for piece in pieces_of(data, rng):
        if held:
            found += block_rows(cutter.feed(held, final=False), reading)
        held = piece
    return found + block_rows(cutter.feed(held, final=True), reading)


def block_rows(block: Block | None, reading: RunReader) -> list[Row]:
    if block is None:
        return []
    places, encoded = reading.encoder.read(block)
    found = []
    for row in range(len(encoded)):
        at = places.position(row)
        if row in encoded.odd:
            built = reading.encoder.build(places.data(row), places.byte(row))
            item = None if isinstance(built, Defect) else built.attributes
        else:
            item = item_of_request(encoded.puts[row])
        found.append((at.line, at.byte, item))
    return found


@pytest.mark.parametrize("group", range(GROUPS))
def test_rows_of_any_split_equal_those_of_the_whole_file(group: int) -> None:
    first = random.randrange(2**40)
    for seed in range(first, first + CASES):
        rng = random.Random(seed)
        name = rng.choice(list(FORMATS))
        format_ = FORMATS[name]
        data, reading = format_.file(rng), format_.reading()
        expected = format_.rows(data)
        whole = block_rows(Block(data, Cursor(0, 1)), reading) if data else []
        if not format_.source.kind.has_columns:
            expected = [
                (line, byte, found[2])
                for (line, byte, _), found in zip(expected, whole, strict=True)
            ]
        split: list[Row] = []
        for chunk in chunks_of(data, reading, rng):
            start = Cursor(chunk.start, chunk.first_line)
            split += read(data[chunk.start : chunk.end], start, reading, rng)
        assert split == expected, f"{name}, seed {seed}: {data!r}"
