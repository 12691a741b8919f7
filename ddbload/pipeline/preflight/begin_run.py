"""Begin a run, or take up the earlier run of its id: its record, `run.json`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from ddbload.contracts.load_identity import asked_hash, differing
from ddbload.contracts.options import Options
from ddbload.contracts.payload import Payload
from ddbload.contracts.results import DONE
from ddbload.contracts.run_record import Cursor, LoadedBefore, RunRecord, Table
from ddbload.contracts.source import AUTO
from ddbload.contracts.template import HMAC_KEY, key_fingerprint
from ddbload.dynamodb.write_modes import PLAN
from ddbload.errors import RunMismatch, SourceChanged
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import ObjectListing, iter_listing, write_object_listing
from ddbload.pipeline.context import Context
from ddbload.pipeline.load_claims import claim_load
from ddbload.pipeline.load_history import SourceVersions, find_loads, is_current
from ddbload.pipeline.preflight.prepare import check_settings, prepare_run, warn_of_header
from ddbload.pipeline.preflight.run_limits import settle_limits
from ddbload.pipeline.table_description import describe_table_with_response
from ddbload.reading.open_sources import open_source, reopen
from ddbload.reading.row_blocks import hmac_key


def begin_run(
    run: str, payload: Payload, ledger: Ledger, context: Context, listing: ObjectListing | None
) -> RunRecord:
    """Write the record of a new run once every check has passed, and return it.

    A run that shall load each object once leaves out those that the table has loaded. Raises the
    named error of a check that failed, `AlreadyLoading` if another run is loading an object that
    this one shall load once, and as `take_up_run` if a run of this id began meanwhile.
    """
    if payload.once and payload.options.mode != PLAN:
        record = _new_record_of_once(run, payload, ledger, context, listing)
    else:
        prepared = prepare_run(run, payload, ledger, context, listing=listing)
        warn_of_header(prepared, context)
        record = prepared.record
    if ledger.put_new_record(record):
        return record
    existing = ledger.record()
    if dict(existing.pinned) != dict(record.pinned):
        raise _changed(existing)
    return take_up_run(existing, payload, ledger, context)


# Once.


def _new_record_of_once(
    run: str, payload: Payload, ledger: Ledger, context: Context, listing: ObjectListing | None
) -> RunRecord:
    """Make the record of a run over the objects that the table has not loaded, and claim these.

    A run that ends after the history was read, and before its claim would have been found, is
    noticed by the history that it wrote: then everything is done again.
    """
    check_settings(payload)
    asked, mode = asked_hash(payload, hmac_key(payload)), payload.options.mode
    table: Table | None = None
    described: Mapping[str, Any] | None = None
    while True:
        source = _versions(payload, listing, ledger, context)
        if table is None:
            table, described = describe_table_with_response(
                context.clients.dynamodb,
                payload.table,
                retry_policy=context.retry_policy,
                suggest=context.access.paths,
            )
        found = find_loads(source, asked, mode, table, context)
        loaded = found.summary
        left = listing
        if loaded is not None and loaded.objects >= source.count:
            return _empty_record(run, payload, source, table, asked, loaded, context)
        if loaded is not None and listing is not None:
            left = write_object_listing(
                found.left(source), ledger, payload.source.uri, listing.format
            )
        prepared = prepare_run(
            *(run, payload, ledger, context),
            table=table,
            described=described,
            listing=left,
        )
        claim_load(prepared.record, ledger, context)
        if is_current(found, source, table, context):
            warn_of_header(prepared, context)
            return replace(prepared.record, loaded_before=loaded)


def _versions(
    payload: Payload, listing: ObjectListing | None, ledger: Ledger, context: Context
) -> SourceVersions:
    if listing is not None:
        return SourceVersions(ledger, None, listing)
    with closing(open_source(payload.source, context)) as raw:
        return SourceVersions(ledger, raw.pinned, None)


def _empty_record(
    run: str,
    payload: Payload,
    source: SourceVersions,
    table: Table,
    asked: str,
    loaded: LoadedBefore,
    context: Context,
) -> RunRecord:
    """Return the record of a run that has nothing to load; its source is not even read."""
    listing = source.listing
    return RunRecord(
        run=run,
        payload=replace(payload, run=run),
        pinned=dict(source.pinned or {}) if listing is None else listing.pinned,
        size=0,
        data_start=Cursor(0, 1),
        columns=(),
        types=(),
        table=table,
        chunk_bytes=payload.options.chunk_bytes,
        workers=1,
        created=context.now(),
        asked=asked,
        objects=0,
        listing=None if listing is None else listing.name,
        loaded_before=loaded,
    )


# The same run again.


def take_up_run(
    existing: RunRecord, payload: Payload, ledger: Ledger, context: Context
) -> RunRecord:
    """Return the record of an earlier run, with the limits of this call.

    What was detected and decided for the run stays; the payload must ask for the same, or name
    what was detected. Raises `RunMismatch`, `SourceChanged`, and `AlreadyLoading` if the run shall
    load its source once and another run took it over.
    """
    _check_same_ask(existing, payload, ledger)
    table, described = describe_table_with_response(
        context.clients.dynamodb,
        payload.table,
        retry_policy=context.retry_policy,
        suggest=context.access.paths,
    )
    if table.id != existing.table.id:
        # Usually a table of the same name that was deleted and created again.
        raise RunMismatch(
            f"run {existing.run} wrote to another table (or to an earlier one of the same name,"
            " since deleted): start a new run for this one"
        )
    if not existing.loads_nothing:
        _check_same_source(existing, payload, ledger, context)
        if existing.payload.once:
            claim_load(existing, ledger, context)
    options = _settled_options(payload.options, existing.payload.options)
    limits = settle_limits(options, table.name, described, context)
    record = existing.with_limits(
        replace(payload, options=limits.options), limits.most_workers, limits.write_price
    )
    if record == existing:
        return existing
    ledger.put_record(record)
    return record


def _check_same_ask(existing: RunRecord, payload: Payload, ledger: Ledger) -> None:
    """Raise `RunMismatch` if a payload asks for other rows than an existing run was asked for."""
    request = ledger.find_request()
    asked = existing.payload if request is None else request.payload
    names = differing(payload, asked, existing.payload)
    key = hmac_key(payload)
    if key is not None and key_fingerprint(key, existing.run) != existing.hmac_key:
        names.append(f"key in {HMAC_KEY}")
    if payload.table != existing.payload.table:
        names.insert(0, "table")
    if names:
        raise RunMismatch(
            f"run {existing.run} began with another {', '.join(names)}; give the same, or another"
            " run id"
        )


def _check_same_source(
    existing: RunRecord, payload: Payload, ledger: Ledger, context: Context
) -> None:
    """Raise `SourceChanged` if the source, or the first of its objects, is another version.

    What is left to import notices changes itself. A run that is done has nothing left, so all of
    its files are looked at, which unlike objects cost no requests.
    """
    if existing.objects is None:
        with closing(open_source(payload.source, context)) as raw:
            if dict(raw.pinned) != dict(existing.pinned):
                raise _changed(existing)
        return
    report = ledger.find_report()
    is_done = report is not None and report.status in DONE
    has_files = any(not name.startswith("s3://") for name in payload.source.names)
    looked_at = existing.objects if is_done and has_files else 1
    listed = iter_listing(ledger, existing.listing or "", 0, looked_at)
    for pinned in (each for number, each in enumerate(listed) if number == 0 or "path" in each):
        with closing(reopen(pinned, context)) as raw:
            # Reading notices another version, which opening alone does not in S3.
            next(iter(raw.stream(0, 1, 1)), b"")


def _changed(existing: RunRecord) -> SourceChanged:
    return SourceChanged(
        f"run {existing.run} began with another version of {existing.payload.source.uri} (or"
        " another source); start a new run for this one"
    )


def _settled_options(asked: Options, settled: Options) -> Options:
    """Keep the way of scanning that preflight chose for the run, unless one is asked for."""
    if asked.scan == AUTO:
        asked = replace(asked, scan=settled.scan)
    return replace(asked, max_row_bytes=asked.row_limit)
