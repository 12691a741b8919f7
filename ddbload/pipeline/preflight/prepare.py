"""What a run is: its source pinned and understood, and checked against its table."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from ddbload.contracts.payload import PARQUET, Payload, Source
from ddbload.contracts.run_record import LEDGER_VERSION, Cursor, RunRecord, Table
from ddbload.dynamodb.write_modes import DELETE
from ddbload.errors import RunMismatch, SourceChanged
from ddbload.items.item_layout import column_changes
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import Context
from ddbload.pipeline.preflight.column_types import settle_types
from ddbload.pipeline.preflight.detect_format import DetectedFormat, check_dialect, detect_format
from ddbload.pipeline.preflight.find_objects import find_objects
from ddbload.pipeline.preflight.table_checks import check_names
from ddbload.pipeline.reading.header import read_header, wanted_columns
from ddbload.pipeline.reading.open_sources import (
    known_size,
    open_decoded,
    open_source,
    prefix_errors_with_object_name,
    reopen,
)
from ddbload.pipeline.reading.source_objects import (
    ObjectListing,
    iter_listing,
    row_groups,
    write_object_listing,
)
from ddbload.pipeline.table_description import describe_table
from ddbload.source.byte_source import ByteSource, HeadCachingSource

MAX_CHUNKS = 20_000


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that could begin."""

    record: RunRecord
    resolved: DetectedFormat


def create_or_load_run(run: str, payload: Payload, ledger: Ledger, context: Context) -> RunRecord:
    """The record of a new run, written; or that of an earlier one of the same id.

    It is written when all is well. Whatever is wrong is raised by name.
    """
    found = ledger.find_record()
    record = prepare_run(run, payload, ledger, context, found).record
    if found is None and ledger.begin(record):
        return record
    existing = ledger.record()
    _check_same_configuration(existing, record)
    if record.payload.options == existing.payload.options:
        return existing
    record = existing.with_options(record)
    ledger.put_record(record)
    return record


def prepare_run(
    run: str,
    payload: Payload,
    ledger: Ledger,
    context: Context,
    existing: RunRecord | None = None,
    table: Table | None = None,
) -> PreparedRun:
    """Open the source, find out how it is read, and check it against the table.

    `ledger` gets the listing of a source of several objects; that of an `existing` run stays as
    it is. `table`: in place of the payload's, which is described else.
    """
    asked, options = payload.source, payload.options
    check_dialect(asked)
    if asked.columns is not None:
        check_names(asked.columns)
    changes = column_changes(payload.mapping)
    listing = _listing(asked, ledger, context, existing)
    if listing is not None and listing.format is not None:
        asked = replace(asked, format=listing.format)
    with closing(_open_sources(asked, listing, ledger, context)) as objects:
        first = next(objects)
        if table is None:
            table = describe_table(
                context.clients.dynamodb, payload.table, retry_policy=context.retry_policy
            )
        # What is not there is in no index: their limits do not matter.
        checked = replace(table, index_keys=()) if options.mode == DELETE else table
        for raw in chain([first], objects):
            keys = wanted_columns(checked, changes)
            with prefix_errors_with_object_name(raw, several=listing is not None):
                resolved = detect_format(raw, asked, keys)
                source = resolved.source
                file = open_decoded(raw, source)
                header = read_header(
                    file, source, options.max_row_bytes, keys=keys, doubt=resolved.doubt
                )
            # What has no row, as compressed nothing has none, does not tell what others are like.
            if not header.empty:
                break
        if source.format == PARQUET and existing is None:
            listing = _by_row_group(raw, listing, ledger, context)
        check_names(header.columns)
        payload = replace(payload, source=source, run=run)
        types = settle_types(file, header, payload, checked)
        size = known_size(file)
    one = listing is None
    if not one:
        # Each object may be compressed in its own way, or not at all.
        payload = replace(payload, source=replace(source, compression=asked.compression))
    start = header.data_start if one else Cursor(0, 1)
    if listing is not None:
        # Objects fill their chunks by half at least.
        total, most = 2 * listing.bytes, listing.objects
    else:
        total = 0 if size is None else size - start.byte
        most = MAX_CHUNKS
    chunk_bytes = max(options.chunk_bytes, -(-total // MAX_CHUNKS))
    ledger_version = LEDGER_VERSION
    if existing is not None:
        # What a run began with, it is finished with.
        chunk_bytes, ledger_version = existing.chunk_bytes, existing.ledger_version
    pinned = raw.pinned if listing is None else listing.pinned
    if existing is not None and "ctime_ns" not in existing.pinned:
        # Earlier versions did not pin it.
        pinned = {name: value for name, value in pinned.items() if name != "ctime_ns"}
    record = RunRecord(
        run=run,
        payload=payload,
        pinned=pinned,
        size=size if one else None,
        data_start=start,
        columns=header.columns,
        types=types,
        table=table,
        chunk_bytes=chunk_bytes,
        workers=max(1, min(options.workers, most, -(-total // chunk_bytes))),
        created=context.now(),
        objects=None if listing is None else listing.objects,
        listing=None if listing is None else listing.name,
        ledger_version=ledger_version,
    )
    return PreparedRun(record, resolved)


def _by_row_group(
    raw: ByteSource, listing: ObjectListing | None, ledger: Ledger, context: Context
) -> ObjectListing | None:
    """The objects' row groups in their places. None where there is one, or none."""
    if listing is None:
        files: Iterable[Mapping[str, Any]] = [raw.pinned]
    else:
        files = iter_listing(ledger, listing.name, 0, listing.objects)
    groups = row_groups(files, context)
    if listing is None:
        first = list(islice(groups, 2))
        if len(first) <= 1:
            return None
        groups = chain(first, groups)
    return write_object_listing(groups, ledger, raw.name, PARQUET)


def _listing(
    source: Source, ledger: Ledger, context: Context, existing: RunRecord | None
) -> ObjectListing | None:
    """What is known of the source's objects; None where it is one."""
    if existing is not None and existing.objects is not None:
        # The run goes on with what it began with, whatever came to be there since.
        if source.place != existing.payload.source.place:
            raise RunMismatch(
                f"run {existing.run} began with {existing.payload.source.uri}; give the same"
                " source, or another run id"
            )
        format_ = existing.payload.source.format
        return ObjectListing(existing.pinned, existing.listing or "", format_)
    found = find_objects(source, context)
    if found is None:
        return None
    return write_object_listing(found.objects, ledger, source.uri, found.format)


def _open_sources(
    source: Source, listing: ObjectListing | None, ledger: Ledger, context: Context
) -> Generator[ByteSource]:
    """The source, or its objects, each closed when the next one is asked for."""
    if listing is None:
        opened = iter([open_source(source, context)])
    else:
        objects = iter_listing(ledger, listing.name, 0, listing.objects)
        opened = (reopen(pinned, context) for pinned in objects)
    for raw in opened:
        with closing(raw):
            yield HeadCachingSource(raw)


def _check_same_configuration(existing: RunRecord, record: RunRecord) -> None:
    if existing.configuration == record.configuration:
        return
    run = record.run
    if dict(existing.pinned) != dict(record.pinned):
        raise SourceChanged(
            f"run {run} began with another version of {existing.payload.source.uri} (or another"
            " source); start a new run for this one"
        )
    then, now = existing.payload.options, record.payload.options
    both = (existing, record)
    # Documents have no columns: their types are those that were declared.
    is_delimited = any(each.payload.source.delimited for each in both)
    types, other_types = (each.types if is_delimited else each.payload.types for each in both)
    differing = [
        name
        for name, one, other in (
            ("table", existing.table.id, record.table.id),
            ("columns", existing.columns, record.columns),
            ("types", types, other_types),
            ("mapping", existing.payload.mapping, record.payload.mapping),
            ("nulls", existing.payload.nulls, record.payload.nulls),
            ("mode", then.mode, now.mode),
            ("position attribute", then.position_attribute, now.position_attribute),
        )
        if one != other
    ]
    if "table" in differing:
        # Most often of the same name, deleted and made again: what was written is gone.
        raise RunMismatch(
            f"run {run} wrote to another table (or to an earlier one of the same name, since"
            " deleted): start a new run for this one"
        )
    what = ", ".join(differing) or "format, delimiter, quote or header"
    raise RunMismatch(f"run {run} began with another {what}; give the same, or another run id")
