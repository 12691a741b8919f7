"""Build a run's record: pin the source, detect its format, and check it against the table."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from ddbload.context import Context
from ddbload.contracts.column_mapping import (
    Dialect,
    check_column_names,
    column_changes,
    key_fingerprint,
    placeholder_delimiter,
)
from ddbload.contracts.options import EDGES
from ddbload.contracts.payload import Payload, asked_hash
from ddbload.contracts.run_record import Cursor, RunRecord, Table
from ddbload.contracts.source import AUTO, CSV, OBJECT, PARQUET, TSV, Source
from ddbload.errors import DdbloadError
from ddbload.items.type_inference import SettledCells
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import ObjectListing, iter_listing, write_object_listing
from ddbload.reading.header import (
    Header,
    cell_warnings,
    detect_layout,
    read_header,
    read_start,
    wanted_columns,
)
from ddbload.reading.open_sources import (
    compression_in,
    first_bytes,
    known_size,
    list_archives,
    list_if_archive,
    open_as_text,
    open_decoded,
    open_source,
    prefix_errors_with_object_name,
    reopen,
)
from ddbload.reading.row_blocks import hmac_key, row_groups
from ddbload.records import Record
from ddbload.rows.file_signatures import (
    LONGEST_BYTE_ORDER_MARK,
    PARQUET_SIGNATURE,
    encoding_of,
    refuse_other_encodings,
)
from ddbload.rows.header_evidence import HeaderEvidence
from ddbload.rows.readings import Doubt
from ddbload.rows.sample_splits import SNIFFED_BYTES
from ddbload.rows.sniff import sniff
from ddbload.source.decoding.decoded_source import ByteSource, DecodedSource, HeadCachingSource
from ddbload.source.s3_object import Pinned
from ddbload.steps.checks import check_settings, describe, resolve_limits, resolve_types
from ddbload.steps.find_objects import list_source

MAX_CHUNKS = 20_000
EDGES_ABOVE_BYTES = 2 * 1024**3
EDGES_ABOVE_COMPRESSED_BYTES = 256 * 1024**2
"""Stored bytes of a source above which `auto` scans by edges: reading it takes a function half a
minute. Compressed text is several times as long."""
CHUNKS_OF_WORKER, MIN_CHUNK_BYTES = 32, 64 * 1024
"""Chunks that a source is cut into for each worker, unless they would be smaller than this."""
WINDOWS_OF_CHUNK = 8
"""Least size of such a chunk, in windows of `max_row_bytes`, if each cut reads a window."""
MIN_LOCAL_CHUNK_BYTES = 1024 * 1024
"""Least part of a local file for which another process is used."""


class PreparedRun(Record):
    """Record of a run that passed every check, and the format that was detected for it."""

    record: RunRecord
    detected: DetectedFormat
    notices: tuple[str, ...] = ()
    """Decisions about the cells of columns."""


class _FirstObject(Record):
    """Format, header and types found in a source's first object that has rows."""

    name: str
    pinned: Pinned
    size: int | None
    """Bytes to read; None if unknown before reading (compressed, decoded)."""
    detected: DetectedFormat
    header: Header
    cells: SettledCells
    """Types of the attributes."""


def warn_of_reading(prepared: PreparedRun, context: Context) -> None:
    """Warn of what may be read in another way than it was meant."""
    if context.notice is not None:
        for warning in prepared.detected.warnings:
            context.notice(warning)


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
    replaces the payload's table, which is otherwise described; `described` is its description by
    DescribeTable, if it exists.
    """
    check_settings(payload)
    asked = asked_hash(payload, hmac_key(payload))
    if listing is None and not payload.source.names_object:
        # Without a deadline it ends.
        listed = list_source(payload.source, ledger, context)
        listing = listed if isinstance(listed, ObjectListing) else None
    if listing is not None and listing.format is not None:
        payload = replace(payload, source=replace(payload.source, format=listing.format))
    with closing(_open_objects(payload.source, listing, ledger, context)) as objects:
        raw = next(objects)
        found: Iterable[Pinned] | None = None
        if listing is None:
            found = list_if_archive(raw, payload.source)
        elif listing.archives and payload.source.compression == AUTO and listing.format is None:
            found = list_archives(iter_listing(ledger, listing.name, 0, listing.objects), context)
        if found is not None:
            members = write_object_listing(iter(found), ledger, payload.source.uri, None)
            return prepare_run(run, payload, ledger, context, table, described, members)
        if table is None:
            table, described = describe(payload, context)
        first = _inspect_first_object(
            chain([raw], objects), payload, table, several=listing is not None
        )
    if first.detected.source.kind.is_container:
        # List each row group of Parquet files as an object, unless one file has at most one.
        files: Iterable[Pinned] = [first.pinned]
        if listing is not None:
            files = iter_listing(ledger, listing.name, 0, listing.objects)
        groups = row_groups(files, context)
        first_two = list(islice(groups, 2))
        if listing is not None or len(first_two) == 2:
            listing = write_object_listing(chain(first_two, groups), ledger, first.name, PARQUET)
    payload = replace(payload, run=run)
    record = _make_record(payload, asked, first, listing, table, described, context)
    for notice in first.cells.notices:
        if context.notice is not None:
            context.notice(notice)
    return PreparedRun(record, first.detected, first.cells.notices)


def _inspect_first_object(
    objects: Iterator[ByteSource], payload: Payload, table: Table, *, several: bool
) -> _FirstObject:
    """Detect format, header and types by the first object with rows, or by the last one."""
    options = payload.options
    # Deletes touch no index, so index key limits do not apply.
    checked = replace(table, index_keys=()) if options.write_mode.deletes else table
    keys = wanted_columns(checked, column_changes(payload.mapping))
    for raw in objects:
        with prefix_errors_with_object_name(raw, several=several):
            detected = detect_format(raw, payload.source, keys, several=several)
            if detected.source.layout == OBJECT and table.keys:
                named = replace(detected.source, to_table=table.name)
                detected = replace(detected, source=named)
            file = open_decoded(raw, detected.source)
        with _with_detected(detected), prefix_errors_with_object_name(raw, several=several):
            header = read_header(
                *(file, detected.source, options.row_limit),
                keys=keys,
                doubt=detected.doubt,
                deletes=options.write_mode.deletes,
            )
        # Skip objects without rows, such as a gzipped empty file: they do not show the header.
        if not header.empty:
            break
    payload = _read_as(payload, detected.source)
    warnings = (*cell_warnings(header, payload.nulls.markers), *detected.cell_warnings)
    detected = replace(detected, header=header, cell_warnings=warnings)
    with _with_detected(detected):
        check_column_names(header.columns)
        cells = resolve_types(file, header, payload, checked)
    return _FirstObject(raw.name, raw.pinned, known_size(file), detected, header, cells)


def _read_as(payload: Payload, source: Source) -> Payload:
    """Return the payload with a detected source. Its dialect's null marker joins those given."""
    nulls = payload.nulls
    if source.dialect != payload.source.dialect and "\\N" not in nulls.markers:
        nulls = replace(nulls, markers=(*nulls.markers, "\\N"))
    return replace(payload, source=source, nulls=nulls)


@contextmanager
def _with_detected(detected: DetectedFormat) -> Generator[None]:
    """Add what was detected to errors, for plans."""
    try:
        yield
    except DdbloadError as error:
        error.reading = detected.to_json()
        raise


def _make_record(
    payload: Payload,
    asked: str,
    first: _FirstObject,
    listing: ObjectListing | None,
    table: Table,
    described: Mapping[str, Any] | None,
    context: Context,
) -> RunRecord:
    """Choose how to scan, and the run's limits. A scan of everything keeps `auto`."""
    options = payload.options
    if options.scan == AUTO and not first.detected.source.kind.is_container:
        stored = int(first.pinned["size"]) if listing is None else listing.bytes
        most = EDGES_ABOVE_COMPRESSED_BYTES if first.size is None else EDGES_ABOVE_BYTES
        options = replace(options, scan=EDGES if stored > most else AUTO)
    options = replace(options, max_row_bytes=options.row_limit)
    limits = resolve_limits(options, table.name, described, context)
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
    run, key = payload.run or "", hmac_key(payload)
    chunk_bytes = max(options.chunk_bytes, -(-expected_bytes // MAX_CHUNKS))
    workers = limits.options.workers
    if payload.source.path is not None and size is not None and isinstance(workers, int):
        # Each process gets a part of a local file that is smaller than a chunk for each.
        part = max(MIN_LOCAL_CHUNK_BYTES, -(-expected_bytes // workers))
        chunk_bytes = min(chunk_bytes, part)
    record = RunRecord(
        run=run,
        payload=replace(_read_as(payload, source), options=limits.options),
        pinned=pinned,
        size=size,
        data_start=start,
        columns=first.header.columns,
        types=first.cells.types,
        table=table,
        chunk_bytes=chunk_bytes,
        workers=max(1, min(limits.most_workers, max_chunks, -(-expected_bytes // chunk_bytes))),
        created=context.now(),
        asked=asked,
        hmac_key=None if key is None else key_fingerprint(key, run),
        objects=None if listing is None else listing.objects,
        listing=None if listing is None else listing.name,
        most_workers=limits.most_workers,
        write_price=limits.write_price,
        capacity=limits.capacity,
        look_like_numbers=first.cells.numbers,
    )
    if not record.has_places or expected_bytes <= context.small_bytes:
        return record
    part = -(-expected_bytes // min(CHUNKS_OF_WORKER * record.workers, MAX_CHUNKS))
    window = options.row_limit if options.scan == EDGES else 0
    least = max(MIN_CHUNK_BYTES, WINDOWS_OF_CHUNK * window)
    return replace(record, chunk_bytes=min(chunk_bytes, max(least, part)))


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


_MOST_BYTES = 4 * SNIFFED_BYTES


class DetectedFormat(Record):
    """Source with every `auto` replaced, and the confidence of the guess."""

    source: Source
    sure: float = 1.0
    why: str | None = None
    """Reason for the guess; None if nothing was guessed."""
    doubt: Doubt | None = None
    """Reason to doubt that the first row is a header, if the delimiter was guessed."""
    header: Header | None = None
    """Header of the first object with rows."""
    cell_warnings: tuple[str, ...] = ()
    """Warnings of its rows."""

    @property
    def header_evidence(self) -> HeaderEvidence | None:
        """Evidence for the first row as a header; None if it is not taken for one."""
        return None if self.header is None else self.header.evidence

    @property
    def header_warning(self) -> str | None:
        """Warning that the first row is taken for column names, if it looks like data."""
        header = self.header_evidence
        if header is None or not header.looks_like_data:
            return None
        return (
            f"the first row is taken for column names, and looks like data: {header.why}. If it is"
            " data, say --no-header (in a payload, source.header false)"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of what may be read in another way than it was meant."""
        header = self.header_warning
        return self.cell_warnings if header is None else (header, *self.cell_warnings)

    def to_json(self) -> dict[str, Any]:
        """Return the reading for a plan: what was detected, and how sure that is."""
        source, guessed = self.source, self.why is not None
        value: dict[str, Any] = {
            "format": source.format,
            "delimiter": source.delimiter,
            "quote": source.quote,
            "escape": source.escape,
            "comment": source.comment,
            "header": source.header,
        }
        if not source.kind.has_columns:
            # JSON has no dialect.
            value = {**dict.fromkeys(value), "format": source.format}
        if source.framed:
            value["layout"] = source.layout
        header = self.header_evidence
        return {
            **value,
            "skip_lines": source.skip_lines,
            "encoding": source.encoding,
            "compression": source.compression,
            "sure": self.sure if guessed else 1.0,
            "why": self.why if guessed else "as given",
            "header_why": None if header is None else header.why,
            "header_looks_like_data": header is not None and header.looks_like_data,
            "readings": [] if self.doubt is None else self.doubt.to_json(source.skip_lines),
        }


def detect_format(
    raw: ByteSource, source: Source, wanted: Collection[str], *, several: bool = False
) -> DetectedFormat:
    """Replace each `auto` of a source, by its first object.

    `wanted`: columns that the table's keys are made from. `several`: there are other objects.
    Raises errors of reading.
    """
    plain = replace(source, compression=compression_in(raw, source))
    if source.format in (AUTO, PARQUET) and first_bytes(raw).startswith(PARQUET_SIGNATURE):
        return DetectedFormat(replace(plain, format=PARQUET, delimiter=",", encoding="utf-8"))
    plain = _with_encoding(raw, plain)
    if source.kind.has_layouts and not source.kind.is_open:
        return _with_layout(raw, DetectedFormat(plain), wanted)
    if source.delimiter != AUTO and source.format == AUTO:
        # Only delimited text has a delimiter, so the format is known too.
        return DetectedFormat(replace(plain, format=TSV if source.delimiter == "\t" else CSV))
    if AUTO not in (source.format, source.delimiter) or source.format not in (AUTO, CSV):
        return DetectedFormat(plain)
    file = open_as_text(raw, plain)
    start, whole = _sample(file, source.skip_lines)
    guess = sniff(
        start,
        name=raw.name,
        whole=whole,
        wanted=wanted,
        header=source.header,
        count=None if source.columns is None else len(source.columns),
        dialect=Dialect.of(
            replace(plain, delimiter=placeholder_delimiter(source.quote), encoding="utf-8")
        ),
        format_=None if source.format == AUTO else source.format,
        skipped=source.skip_lines,
        several=several,
    )
    source = replace(plain, format=guess.format, delimiter=",")
    if guess.reading is not None:
        source = guess.reading.applied_to(source)
    detected = DetectedFormat(
        source, guess.sure, guess.why, guess.doubt, cell_warnings=guess.warnings
    )
    is_json = source.kind.has_layouts
    return _with_layout(raw, detected, wanted, guessed=True) if is_json else detected


def _with_layout(
    raw: ByteSource, detected: DetectedFormat, keys: Collection[str], *, guessed: bool = False
) -> DetectedFormat:
    """Detect the layout of JSON objects, and their format if it was only guessed."""
    source = detected.source
    if source.skip_lines or source.layout != AUTO:
        return detected
    found = detect_layout(open_as_text(raw, source), keys)
    if found is None:
        return detected
    layout, guess = found
    source = replace(source, layout=layout, format=guess.format if guessed else source.format)
    return DetectedFormat(source, guess.sure, guess.why)


def _with_encoding(raw: ByteSource, source: Source) -> Source:
    if source.encoding != AUTO:
        return source
    file = open_as_text(raw, source)
    start = read_start(file, _MOST_BYTES, SNIFFED_BYTES)[:_MOST_BYTES]
    found = encoding_of(start[:LONGEST_BYTE_ORDER_MARK])
    if found is None:
        is_member = "member" in raw.pinned
        refuse_other_encodings(start, whole=len(start) < _MOST_BYTES, is_member=is_member)
    return replace(source, encoding=found or "utf-8")


def _sample(file: DecodedSource, skip_lines: int) -> tuple[bytes, bool]:
    """Read the first bytes after skipped lines; also return whether these are all bytes."""
    start = read_start(file, _MOST_BYTES, SNIFFED_BYTES)[:_MOST_BYTES]
    whole = len(start) < _MOST_BYTES
    if skip_lines:
        start = start.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    at = 0
    for _ in range(skip_lines):
        at = start.find(b"\n", at) + 1
        if not at:
            return b"", whole
    return start[at:], whole
