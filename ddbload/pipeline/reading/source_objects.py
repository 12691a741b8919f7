"""The objects of a source: found, listed in the ledger, and opened for a chunk."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from ddbload.contracts.chunks import Chunk, ObjectSlice
from ddbload.contracts.column_mapping import column_changes
from ddbload.contracts.run_record import Cursor, RunRecord
from ddbload.errors import (
    HeaderMismatch,
    SourceNotFound,
    SplitMismatch,
)
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import Context
from ddbload.pipeline.reading.header import read_header, wanted_columns
from ddbload.pipeline.reading.open_sources import open_decoded, open_each, open_parquet
from ddbload.pipeline.reading.row_blocks import RunReader
from ddbload.rows.block_splitter import Block
from ddbload.source.decoding.decoded_source import DecodedSource

PAGE_OBJECTS = 1000
"""Objects of one page of the listing."""


@dataclass(frozen=True, slots=True)
class ObjectListing:
    """What a source of several objects is."""

    pinned: Mapping[str, Any]
    """Tells it from another: how many objects and bytes, and a hash of all their versions."""
    name: str
    """In the ledger."""
    format: str | None = None
    """Where what names the objects says it."""

    @property
    def bytes(self) -> int:
        """Of all objects, as they are kept."""
        return int(self.pinned["bytes"])

    @property
    def objects(self) -> int:
        """How many there are."""
        return int(self.pinned["objects"])


def write_object_listing(
    objects: Iterator[Mapping[str, Any]], ledger: Ledger, name: str, format_: str | None
) -> ObjectListing:
    """Write which objects there are into the ledger. Raises `SourceNotFound` where there is none.

    `name`: the source's.
    """
    listing = secrets.token_hex(4)
    digest = hashlib.sha256()
    page: list[Mapping[str, Any]] = []
    count = size = 0
    for each in objects:
        page.append(each)
        digest.update(json.dumps(each, sort_keys=True).encode())
        count += 1
        size += each.get("bytes", each["size"])
        if len(page) == PAGE_OBJECTS:
            ledger.put_listing(listing, (count - 1) // PAGE_OBJECTS, page)
            page = []
    if not count:
        raise SourceNotFound(f"{name}: no object, or none but empty ones")
    if page:
        ledger.put_listing(listing, (count - 1) // PAGE_OBJECTS, page)
    pinned = {"objects": count, "bytes": size, "sha256": digest.hexdigest()}
    return ObjectListing(pinned, listing, format_)


def iter_objects(record: RunRecord, ledger: Ledger, first: int) -> Iterator[Mapping[str, Any]]:
    """The versions that a run reads, from an object on: those listed, or the one."""
    if record.objects is None:
        yield record.pinned
    else:
        yield from iter_listing(ledger, record.listing or "", first, record.objects)


def iter_listing(ledger: Ledger, name: str, first: int, end: int) -> Iterator[Mapping[str, Any]]:
    """The objects of a listing from number `first` up to, not with, number `end`."""
    for number in range(first, end):
        if number == first or number % PAGE_OBJECTS == 0:
            page = ledger.listing(name, number // PAGE_OBJECTS)
        yield page[number % PAGE_OBJECTS]


def row_groups(
    objects: Iterable[Mapping[str, Any]], context: Context
) -> Iterator[Mapping[str, Any]]:
    """Parquet files, each as often as it has row groups, or some of them that are small: these
    are read like objects.
    """
    with closing(open_each(iter(objects), context, several=True)) as each:
        for pinned, raw in each:
            for first, after, size in open_parquet(raw).row_group_ranges():
                yield {**pinned, "row_groups": [first, after], "bytes": size}


def slice_for_object(
    record: RunRecord, pinned: Mapping[str, Any], file: DecodedSource, base: int
) -> ObjectSlice:
    """What an object is in the whole, where its rows begin at `base` among those of all.

    `pinned`: what is known of it; `file`: what its rows are read from. Of decoded text the size
    is yet to be found out. Raises `HeaderMismatch` and what reading a header raises.
    """
    raw = file.inner
    if record.objects is None:
        start = record.data_start
        return ObjectSlice(pinned, start.byte, start.byte, start.line, raw.size - start.byte)
    payload = record.payload
    keys = wanted_columns(record.table, column_changes(payload.mapping))
    header = read_header(file, payload.source, payload.options.max_row_bytes, keys=keys)
    if payload.source.delimited and not header.empty and header.columns != record.columns:
        raise HeaderMismatch(
            f"{raw.name} has other columns than the first object, or the same in another order:"
            " import it by itself; or name the columns of all with --columns"
        )
    skip = header.data_start.byte
    line = header.data_start.line + file.rows_before
    return ObjectSlice(pinned, base, skip, line, max(0, raw.size - skip))


def expected_bytes(record: RunRecord) -> int:
    """Bytes that there are to be read; as they are kept, where only reading says more."""
    if record.size is not None:
        return record.size
    return int(record.pinned["bytes" if record.objects is not None else "size"])


def chunk_parts(
    record: RunRecord, chunk: Chunk, start: Cursor, ledger: Ledger
) -> list[ObjectSlice]:
    """What a chunk reads from a cursor on."""
    if record.objects is not None:
        return [part for part in ledger.parts(chunk) if part.end > start.byte]
    first = record.data_start
    return [
        ObjectSlice(record.pinned, first.byte, first.byte, first.line, _size(record) - first.byte)
    ]


def _size(record: RunRecord) -> int:
    assert record.size is not None, "preflight came to its end"  # noqa: S101
    return record.size


def chunk_blocks(
    reading: RunReader,
    chunk: Chunk,
    start: Cursor,
    parts: Iterator[tuple[ObjectSlice, DecodedSource]],
    piece_bytes: int,
) -> Iterator[tuple[ObjectSlice, str, Block]]:
    """A chunk's rows from a cursor on: each block with its part and that object's name.

    Raises `RowTooLong`, `SplitMismatch`, and what keeps the source from being read.
    """
    at = start
    for part, file in parts:
        end = min(chunk.end, part.end)
        if at.byte <= part.base:
            at = Cursor(part.base, part.line)
        for block in reading.blocks(file, part, at, end, piece_bytes):
            if block is None:
                continue
            if not block.terminated and end != part.end:
                raise SplitMismatch(
                    f"chunk {chunk.chunk} should end with a row at byte {end}, and does not: the"
                    " manifest does not fit the source; start a new run"
                )
            at = block.end
            yield part, file.name, block


def open_parts(
    parts: list[ObjectSlice], record: RunRecord, context: Context
) -> Generator[tuple[ObjectSlice, DecodedSource], None, None]:
    """Each part with what it is read from, closed when the next one is asked for."""
    pinned_each = (part.pinned for part in parts)
    several = record.objects is not None
    with closing(open_each(pinned_each, context, several=several)) as objects:
        for part, (pinned, raw) in zip(parts, objects, strict=True):
            yield part, open_decoded(raw, record.payload.source, pinned)
