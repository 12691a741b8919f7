"""Build a run's record: pin the source, detect its format, and check it against the table."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from ddbload.contracts.column_mapping import check_column_names, column_changes
from ddbload.contracts.dialect import check_dialect
from ddbload.contracts.load_identity import asked_hash
from ddbload.contracts.options import EDGES, Options
from ddbload.contracts.payload import Payload
from ddbload.contracts.run_record import Cursor, RunRecord, Table
from ddbload.contracts.source import AUTO, PARQUET, Source
from ddbload.contracts.template import key_fingerprint
from ddbload.dynamodb.write_modes import DELETE
from ddbload.errors import DdbloadError
from ddbload.items.type_inference import SettledCells
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import ObjectListing, iter_listing, write_object_listing
from ddbload.pipeline.context import Context
from ddbload.pipeline.preflight.detect_format import DetectedFormat, detect_format
from ddbload.pipeline.preflight.find_objects import list_source
from ddbload.pipeline.preflight.run_limits import RunLimits, settle_limits
from ddbload.pipeline.preflight.table_checks import settle_types
from ddbload.pipeline.table_description import describe_table_with_response
from ddbload.reading.header import Header, read_header, wanted_columns
from ddbload.reading.open_sources import (
    known_size,
    open_decoded,
    open_source,
    prefix_errors_with_object_name,
    reopen,
)
from ddbload.reading.row_blocks import hmac_key
from ddbload.reading.source_objects import row_groups
from ddbload.source.byte_source import ByteSource, HeadCachingSource
from ddbload.source.s3_object import Pinned

FIRST_ROW_LIKE_DATA = "the first row is taken for column names, and looks like data"
NO_HEADER_ADVICE = "If it is data, say --no-header (in a payload, source.header false)"
MAX_CHUNKS = 20_000
EDGES_ABOVE_BYTES = 2 * 1024**3
EDGES_ABOVE_COMPRESSED_BYTES = 256 * 1024**2
"""Stored bytes of a source above which `auto` scans by edges: reading it takes a function half a
minute. Compressed text is several times as long."""
MIN_LOCAL_CHUNK_BYTES = 1024 * 1024
"""Local files are not cut smaller for the sake of a process more."""


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """Record of a run that passed every check, and the format that was detected for it."""

    record: RunRecord
    detected: DetectedFormat
    notices: tuple[str, ...] = ()
    """What was decided about the cells of columns."""


@dataclass(frozen=True, slots=True)
class _FirstObject:
    """Format, header and types found in a source's first object that has rows."""

    name: str
    pinned: Pinned
    size: int | None
    """Bytes to read; None if only reading tells (compressed, decoded)."""
    detected: DetectedFormat
    header: Header
    cells: SettledCells
    """Types of the attributes."""


def warn_of_header(prepared: PreparedRun, context: Context) -> None:
    """Say that the first row is taken for column names, if it looks like data."""
    header = prepared.detected.header
    if header is not None and header.looks_like_data and context.notice is not None:
        context.notice(f"{FIRST_ROW_LIKE_DATA}: {header.why}. {NO_HEADER_ADVICE}")


def prepare_run(
    run: str,
    payload: Payload,
    ledger: Ledger,
    context: Context,
    table: Table | None = None,
    described: Mapping[str, Any] | None = None,
    listing: ObjectListing | None = None,
) -> PreparedRun:
    """Open the source, detect its format and check it against the table.

    The listing of a source of several objects is written to `ledger`, unless it is given. `table`
    replaces the payload's table, which is
    otherwise described; `described` is its description by DescribeTable, if it exists.
    """
    check_settings(payload)
    asked = asked_hash(payload, hmac_key(payload))
    if listing is None:
        # Without a deadline it ends.
        listed = list_source(payload.source, ledger, context)
        listing = listed if isinstance(listed, ObjectListing) else None
    if listing is not None and listing.format is not None:
        payload = replace(payload, source=replace(payload.source, format=listing.format))
    with closing(_open_objects(payload.source, listing, ledger, context)) as objects:
        raw = next(objects)
        if table is None:
            table, described = describe_table_with_response(
                context.clients.dynamodb,
                payload.table,
                retry_policy=context.retry_policy,
                suggest=context.access.paths,
            )
        first = _inspect_first_object(
            chain([raw], objects), payload, table, several=listing is not None
        )
    if first.detected.source.kind.is_container:
        listing = _list_row_groups(first, listing, ledger, context)
    options = _settle_scan(payload.options, first, listing)
    limits = settle_limits(options, table.name, described, context)
    payload = replace(payload, run=run, options=limits.options)
    record = _make_record(payload, asked, first, listing, table, limits, context.now())
    for notice in first.cells.notices:
        if context.notice is not None:
            context.notice(notice)
    return PreparedRun(record, first.detected, first.cells.notices)


def check_settings(payload: Payload) -> None:
    """Raise the named error of a dialect, columns or mapping that no source has."""
    check_dialect(payload.source)
    if payload.source.columns is not None:
        check_column_names(payload.source.columns)
    column_changes(payload.mapping)
    hmac_key(payload)


def _inspect_first_object(
    objects: Iterator[ByteSource], payload: Payload, table: Table, *, several: bool
) -> _FirstObject:
    """Detect format, header and types by the first object with rows, or by the last one."""
    options = payload.options
    # Deletes touch no index, so index key limits do not apply.
    checked = replace(table, index_keys=()) if options.mode == DELETE else table
    keys = wanted_columns(checked, column_changes(payload.mapping))
    for raw in objects:
        with prefix_errors_with_object_name(raw, several=several):
            detected = detect_format(raw, payload.source, keys)
            file = open_decoded(raw, detected.source)
        with _told_with(detected), prefix_errors_with_object_name(raw, several=several):
            header = read_header(
                file, detected.source, options.row_limit, keys=keys, doubt=detected.doubt
            )
        # Skip objects without rows, such as a gzipped empty file: they do not show the header.
        if not header.empty:
            break
    detected = replace(detected, header=header.evidence)
    with _told_with(detected):
        check_column_names(header.columns)
        cells = settle_types(file, header, replace(payload, source=detected.source), checked)
    return _FirstObject(raw.name, raw.pinned, known_size(file), detected, header, cells)


@contextmanager
def _told_with(detected: DetectedFormat) -> Generator[None]:
    """Add what was detected to errors, for plans."""
    try:
        yield
    except DdbloadError as error:
        error.reading = detected.to_json()
        raise


def _settle_scan(options: Options, first: _FirstObject, listing: ObjectListing | None) -> Options:
    """Choose how to scan, and the longest row allowed. A scan of everything keeps `auto`."""
    if options.scan == AUTO:
        stored = int(first.pinned["size"]) if listing is None else listing.bytes
        most = EDGES_ABOVE_COMPRESSED_BYTES if first.size is None else EDGES_ABOVE_BYTES
        if stored > most and not first.detected.source.kind.is_container:
            options = replace(options, scan=EDGES)
    return replace(options, max_row_bytes=options.row_limit)


def _make_record(
    payload: Payload,
    asked: str,
    first: _FirstObject,
    listing: ObjectListing | None,
    table: Table,
    limits: RunLimits,
    created: float,
) -> RunRecord:
    source = first.detected.source
    if listing is None:
        start, size, pinned = first.header.data_start, first.size, first.pinned
        expected_bytes = 0 if size is None else size - start.byte
        max_chunks = MAX_CHUNKS
    else:
        # Each object may be compressed in another way, or not at all.
        source = replace(source, compression=payload.source.compression)
        start, size, pinned = Cursor(0, 1), None, listing.pinned
        # Objects fill at least half of each chunk.
        expected_bytes = 2 * listing.bytes
        max_chunks = listing.objects
    key = hmac_key(payload)
    chunk_bytes = max(payload.options.chunk_bytes, -(-expected_bytes // MAX_CHUNKS))
    workers = payload.options.workers
    if payload.source.path is not None and size is not None and isinstance(workers, int):
        # Each process gets a part of a local file that is smaller than a chunk for each.
        part = max(MIN_LOCAL_CHUNK_BYTES, -(-expected_bytes // workers))
        chunk_bytes = min(chunk_bytes, part)
    return RunRecord(
        run=payload.run or "",
        payload=replace(payload, source=source),
        pinned=pinned,
        size=size,
        data_start=start,
        columns=first.header.columns,
        types=first.cells.types,
        table=table,
        chunk_bytes=chunk_bytes,
        workers=max(1, min(limits.most_workers, max_chunks, -(-expected_bytes // chunk_bytes))),
        created=created,
        asked=asked,
        hmac_key=None if key is None else key_fingerprint(key, payload.run or ""),
        objects=None if listing is None else listing.objects,
        listing=None if listing is None else listing.name,
        most_workers=limits.most_workers,
        write_price=limits.write_price,
    )


def _list_row_groups(
    first: _FirstObject,
    listing: ObjectListing | None,
    ledger: Ledger,
    context: Context,
) -> ObjectListing | None:
    """List each row group of Parquet files as an object; None for one file with at most one."""
    if listing is not None:
        files = iter_listing(ledger, listing.name, 0, listing.objects)
        groups = row_groups(files, context)
        return write_object_listing(groups, ledger, first.name, PARQUET)
    groups = row_groups([first.pinned], context)
    first_two = list(islice(groups, 2))
    if len(first_two) < 2:
        return None
    return write_object_listing(chain(first_two, groups), ledger, first.name, PARQUET)


def _open_objects(
    source: Source, listing: ObjectListing | None, ledger: Ledger, context: Context
) -> Generator[ByteSource]:
    """Open the source's objects one after the other; each is closed when the next is requested."""
    if listing is None:
        opened = iter([open_source(source, context)])
    else:
        objects = iter_listing(ledger, listing.name, 0, listing.objects)
        opened = (reopen(pinned, context) for pinned in objects)
    for raw in opened:
        with closing(raw):
            yield HeadCachingSource(raw)
