"""What a run is: its source pinned and understood, and checked against its table."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from ddbload.contracts import LEDGER_VERSION, PARQUET, Cursor, Payload, RunRecord, Source, Table
from ddbload.errors import RunMismatch, SourceChanged
from ddbload.modes import DELETE
from ddbload.pipeline.context import Context
from ddbload.pipeline.finding import find_objects
from ddbload.pipeline.header import read_header
from ddbload.pipeline.ledger import Ledger
from ddbload.pipeline.objects import Listing, list_objects, listed_from, naming, row_groups
from ddbload.pipeline.reading import readable, size_of
from ddbload.pipeline.resolving import Resolved, check_dialect, resolve, wanted_columns
from ddbload.pipeline.table_description import describe
from ddbload.pipeline.tables import check_names
from ddbload.pipeline.typing import attribute_types
from ddbload.rows.layout import changes_of
from ddbload.source.base import ByteSource
from ddbload.source.remembered import Remembered

MAX_CHUNKS = 20_000


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that could begin."""

    record: RunRecord
    resolved: Resolved


def begin(run: str, payload: Payload, ledger: Ledger, context: Context) -> RunRecord:
    """The record of a new run, written; or that of an earlier one of the same id.

    It is written when all is well. Whatever is wrong is raised by name.
    """
    found = ledger.find_record()
    record = prepare(run, payload, ledger, context, found).record
    if found is None and ledger.begin(record):
        return record
    existing = ledger.record()
    _require_same(existing, record)
    if record.payload.options == existing.payload.options:
        return existing
    record = existing.with_options(record)
    ledger.put_record(record)
    return record


def prepare(
    run: str,
    payload: Payload,
    ledger: Ledger,
    context: Context,
    existing: RunRecord | None = None,
    table: Table | None = None,
) -> Prepared:
    """Open the source, find out how it is read, and check it against the table.

    `ledger` gets the listing of a source of several objects; that of an `existing` run stays as
    it is. `table`: in place of the payload's, which is described else.
    """
    asked, options = payload.source, payload.options
    check_dialect(asked)
    if asked.columns is not None:
        check_names(asked.columns)
    changes = changes_of(payload.mapping)
    listing = _listing(asked, ledger, context, existing)
    if listing is not None and listing.format is not None:
        asked = replace(asked, format=listing.format)
    with closing(_opened(asked, listing, ledger, context)) as objects:
        first = next(objects)
        if table is None:
            table = describe(
                context.clients.dynamodb, payload.table, sleep=context.sleep, rng=context.rng
            )
        # What is not there is in no index: their limits do not matter.
        checked = replace(table, index_keys=()) if options.mode == DELETE else table
        for raw in chain([first], objects):
            keys = wanted_columns(checked, changes)
            with naming(raw, several=listing is not None):
                resolved = resolve(raw, asked, keys)
                source = resolved.source
                file = readable(raw, source)
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
        types = attribute_types(file, header, payload, checked)
        size = size_of(file)
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
    return Prepared(record, resolved)


def _by_row_group(
    raw: ByteSource, listing: Listing | None, ledger: Ledger, context: Context
) -> Listing | None:
    """The objects' row groups in their places. None where there is one, or none."""
    if listing is None:
        files: Iterable[Mapping[str, Any]] = [raw.pinned]
    else:
        files = listed_from(ledger, listing.name, 0, listing.objects)
    groups = row_groups(files, context)
    if listing is None:
        first = list(islice(groups, 2))
        if len(first) <= 1:
            return None
        groups = chain(first, groups)
    return list_objects(groups, ledger, raw.name, PARQUET)


def _listing(
    source: Source, ledger: Ledger, context: Context, existing: RunRecord | None
) -> Listing | None:
    """What is known of the source's objects; None where it is one."""
    if existing is not None and existing.objects is not None:
        # The run goes on with what it began with, whatever came to be there since.
        if source.place != existing.payload.source.place:
            raise RunMismatch(
                f"run {existing.run} began with {existing.payload.source.uri}; give the same"
                " source, or another run id"
            )
        format_ = existing.payload.source.format
        return Listing(existing.pinned, existing.listing or "", format_)
    found = find_objects(source, context)
    if found is None:
        return None
    return list_objects(found.objects, ledger, source.uri, found.format)


def _opened(
    source: Source, listing: Listing | None, ledger: Ledger, context: Context
) -> Generator[ByteSource]:
    """The source, or its objects, each closed when the next one is asked for."""
    if listing is None:
        opened = iter([context.open(source)])
    else:
        objects = listed_from(ledger, listing.name, 0, listing.objects)
        opened = map(context.reopen, objects)
    for raw in opened:
        with closing(raw):
            yield Remembered(raw)


def _require_same(existing: RunRecord, record: RunRecord) -> None:
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
