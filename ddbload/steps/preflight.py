"""Preflight: check everything, pin the source, and cut it into chunks of whole rows."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ddbload.aws.table_description import has_statements, table_notices
from ddbload.context import Context
from ddbload.contracts.chunks import (
    Chunk,
    ListingCursor,
    ManifestPart,
    PreflightCursor,
    groups_of_chunks,
)
from ddbload.contracts.column_mapping import HMAC_KEY, key_fingerprint
from ddbload.contracts.payload import Payload, asked_hash, check_run_id, differing
from ddbload.contracts.results import DONE
from ddbload.contracts.run_record import Cursor, Resume, RunRecord, Table
from ddbload.contracts.source import AUTO
from ddbload.contracts.states import PreflightResult, PreflightTask, RunRequest
from ddbload.errors import InvalidPayload, LedgerDamaged, RunMismatch, SourceChanged
from ddbload.ledger.ledger import Ledger
from ddbload.ledger.object_listing import (
    ObjectListing,
    iter_listing,
    write_object_listing,
)
from ddbload.ledger.run_state import StateFacts, judge
from ddbload.reading.open_sources import open_source, reopen
from ddbload.reading.row_blocks import hmac_key
from ddbload.steps.checks import check_request, describe, require_not_cancelled, resolve_limits
from ddbload.steps.chunker import Chunker
from ddbload.steps.executions import check_input
from ddbload.steps.find_objects import list_source
from ddbload.steps.load_history import EarlierLoads, claim_load
from ddbload.steps.prepare import prepare_run, warn_of_reading
from ddbload.steps.uploads import wait_for_turn

_ONE_START = 3600.0
"""Seconds within which a request that did not fail is replaced without counting as a new start."""


def preflight(task: PreflightTask, context: Context) -> PreflightResult | PreflightTask:
    """Check and pin the source, then cut it into chunks until the end or the deadline.

    Until the runs of older uploads of the same key have ended, the task is returned with the
    seconds to wait; until the objects of a source that has several are listed, the task of the next
    invocation. The first invocation thereafter checks the payload, the table and the header, and
    writes `run.json`; nothing but the request and the listing is written before every check has
    passed. Raises the named error of a failed check, and `UploadSuperseded` if a newer upload is
    being loaded.
    """
    if task.cursor is None or isinstance(task.cursor, ListingCursor):
        payload = _payload(task, context)
        context = context.confined(payload.source)
        run = _run_id(payload, task, context)
        ledger = context.ledger(run)
        earlier = keep_request(ledger, payload, task.execution, context)
        if task.cursor is None and payload.source.sequencer is not None:
            waiting = wait_for_turn(task, payload, run, context)
            if waiting is not None:
                return waiting
        check_request(payload, ledger, context)
        listing = None
        if not payload.source.names_object or earlier is not None or task.cursor is not None:
            listing = list_source(
                payload.source, ledger, context, earlier, task.cursor, context.must_end
            )
        if isinstance(listing, ListingCursor):
            return replace(task, cursor=listing, wait=None)
        if earlier is None:
            record = begin_run(run, payload, ledger, context, listing)
        else:
            record = take_up_run(earlier, payload, ledger, context)
        _warn(record, context)
        context.begun()
        if task.execution is not None and not ledger.asked_now:
            ledger.put_execution(task.execution)
        first = record.data_start
        cursor = PreflightCursor(first.byte, first.line, 0)
        whole = ledger.find_manifest()
        if whole is not None or record.loads_nothing:
            record = _finish_manifest(record, ledger, whole)
            return _result(task, record, None, ledger, len(whole or ()))
    else:
        ledger = context.ledger(check_run_id(task.run))
        require_not_cancelled(ledger)
        record, cursor = ledger.record(), task.cursor
        context = context.confined(record.payload.source)
        before = ledger.manifest_part_before(cursor.byte)
        if before is None or before.cursor != cursor:
            raise InvalidPayload(
                f"the cursor, byte {cursor.byte}, line {cursor.line}, is not where an earlier"
                " invocation of preflight stopped: no row may begin there"
            )
    part = ledger.find_manifest_part(cursor.byte)
    if part is None:
        part = ledger.put_manifest_part(cursor.byte, Chunker(record, ledger, context, cursor).run())
    chunks = cursor.chunk + len(part.chunks)
    if part.cursor is None:
        record = _finish_manifest(record, ledger)
    return _result(task, record, part.cursor, ledger, chunks)


def keep_request(
    ledger: Ledger, payload: Payload, execution: str | None, context: Context
) -> RunRecord | None:
    """Write what is asked of a run that has no record, and enter it in the index of starts.

    Return the record of a run that has one: it keeps the request it began with. A request that
    failed is replaced, and counts from now; so is one that asks for something else.
    """
    record = ledger.find_record()
    if record is not None:
        return record
    folder = None if execution is not None else str(Path.cwd())
    request = RunRequest(ledger.run, payload, context.now(), folder, execution)
    if execution is not None:
        # First the index, so that every run that has a request is in it.
        ledger.put_start(request.created)
        if ledger.put_new_request(request):
            return None
    found = None
    with suppress(LedgerDamaged):
        found = ledger.find_request()
    if found is not None and found.failure is None and request.created - found.created < _ONE_START:
        # The command asks first, and again once it has copied its input and chosen an engine.
        request = replace(request, created=found.created)
    else:
        # First the index, so that every run that has a request is in it.
        ledger.put_start(request.created)
    if request != found:
        ledger.put_request(request)
    if execution is not None:
        ledger.put_execution(execution)
    return None


def resumed_payload(resume: Resume, ledger: Ledger) -> Payload:
    """Make the payload that resumes a run, or starts it over if it has no record.

    Raises `RunNotFound` if nothing was asked of the run.
    """
    record = ledger.find_record()
    if record is None and (request := ledger.find_request()) is not None:
        return request.again(resume.options)
    return resume.payload(record or ledger.record())


def _warn(record: RunRecord, context: Context) -> None:
    """Report warnings about the table to `context.notice`, if set."""
    if context.notice is None or record.loads_nothing:
        return
    if record.size is not None and record.size <= context.small_bytes:
        # Each warning takes a request: as many as the rows of a small source.
        return
    options = record.payload.options
    # A function may not send statements in preflight, and AWS knows them.
    if record.mode.inserts and not context.in_account and not has_statements(context.clients):
        context.notice(
            "this endpoint does not know BatchExecuteStatement, so mode insert sends each row in a"
            " request of its own, by PutItem"
        )
    table, now = record.table.name, context.now()
    units = record.estimated_units
    for notice in table_notices(context.clients, table, options, now, units=units):
        context.notice(notice)


def _run_id(payload: Payload, task: PreflightTask, context: Context) -> str:
    """Return the payload's run id; if that run is done and forced again, the execution's name."""
    run = check_run_id(payload.run or task.run)
    if not payload.force or not _is_done(run, context):
        return run
    again = check_run_id(task.run)
    if again == run or _is_done(again, context):
        raise RunMismatch(f"run {run} is done; to load its source again, give another run id")
    return again


def _is_done(run: str, context: Context) -> bool:
    report, now = context.ledger(run).find_report(), context.now()
    # Preflight's role reads no segments.
    return report is not None and judge(StateFacts(began=now, last=report), now).recorded


def _payload(task: PreflightTask, context: Context) -> Payload:
    if task.execution is not None:
        check_input(task.input)
    resume = Resume.from_input(task.input)
    if resume is None:
        return Payload.from_json(task.input)
    ledger = context.ledger(resume.run)
    payload = resumed_payload(resume, ledger)
    if task.execution is not None and not _is_done(resume.run, context):
        # From here on a failure is one of the run, whose report says it.
        ledger.put_execution(task.execution)
    return payload


def _result(
    task: PreflightTask,
    record: RunRecord,
    cursor: PreflightCursor | None,
    ledger: Ledger,
    chunks: int,
) -> PreflightResult:
    return PreflightResult(
        record.run, cursor, ledger.manifest_name, chunks, record.workers, task.execution
    )


def _read_parts(record: RunRecord, ledger: Ledger) -> ManifestPart:
    """Read all parts of the manifest as one."""
    chunks: list[Chunk] = []
    padded = False
    byte = record.data_start.byte
    while (part := ledger.find_manifest_part(byte)) is not None:
        chunks += part.chunks
        padded = padded or part.padded
        if part.cursor is None:
            break
        byte = part.cursor.byte
    return ManifestPart(tuple(chunks), None, padded)


def _finish_manifest(
    record: RunRecord, ledger: Ledger, written: tuple[Chunk, ...] | None = None
) -> RunRecord:
    """Write the whole manifest, and the record with the size and the number of workers.

    For a compressed source both are unknown before all chunks are cut, and its size is unless
    preflight read it. `written`: the manifest, if an earlier invocation wrote it. Raises
    `LedgerDamaged` if that is another.
    """
    manifest = _read_parts(record, ledger)
    size, chunks = record.size, manifest.chunks
    if written not in (None, chunks):
        raise LedgerDamaged(
            f"the manifest of run {record.run} is not what its parts say; start a new run (another"
            " run id)"
        )
    if size is None and not manifest.padded:
        size = chunks[-1].end if chunks else record.data_start.byte
    workers = record.workers_for(len(chunks))
    counted = replace(record, size=size, workers=workers, padded=manifest.padded)
    if counted != record:
        ledger.put_record(counted)
    groups = groups_of_chunks(chunks, workers) if record.has_places else [*zip(chunks)]
    # A run that is resumed may have another number of workers.
    if written is None or tuple(groups) != ledger.find_groups():
        ledger.put_manifest(groups)
    return counted


def begin_run(
    run: str, payload: Payload, ledger: Ledger, context: Context, listing: ObjectListing | None
) -> RunRecord:
    """Write the record of a new run once every check has passed, and return it.

    A run that shall load each object once leaves out those that the table has loaded. Raises the
    named error of a check that failed, `AlreadyLoading` if another run is loading an object that
    this one shall load once, and as `take_up_run` if a run of this id began meanwhile.
    """
    if payload.once and payload.options.write_mode.writes:
        record = _new_record_of_once(run, payload, ledger, context, listing)
    else:
        prepared = prepare_run(run, payload, ledger, context, listing=listing)
        warn_of_reading(prepared, context)
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
    asked, mode = asked_hash(payload, hmac_key(payload)), payload.options.write_mode
    table: Table | None = None
    described: Mapping[str, Any] | None = None
    while True:
        pinned = None
        if listing is None:
            with closing(open_source(payload.source, context)) as raw:
                pinned = raw.pinned
        if table is None:
            table, described = describe(payload, context)
        found = EarlierLoads(asked, mode, pinned, listing, table, ledger, context)
        loaded = found.summary
        left = listing
        if loaded is not None and found.has_all:
            # There is nothing to load: the source is not even read.
            return RunRecord(
                run=run,
                payload=replace(payload, run=run),
                pinned=dict(pinned or {}) if listing is None else listing.pinned,
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
        if loaded is not None and listing is not None:
            left = write_object_listing(found.left, ledger, payload.source.uri, listing.format)
        prepared = prepare_run(
            *(run, payload, ledger, context),
            table=table,
            described=described,
            listing=left,
        )
        claim_load(prepared.record, ledger, context)
        if found.is_current:
            warn_of_reading(prepared, context)
            return replace(prepared.record, loaded_before=loaded)


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
    table, described = describe(payload, context)
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
    options = payload.options
    if options.scan == AUTO:
        # The way of scanning that preflight chose for the run stays, unless one is asked for.
        options = replace(options, scan=existing.payload.options.scan)
    options = replace(options, max_row_bytes=options.row_limit)
    limits = resolve_limits(options, table.name, described, context)
    expansion, most_workers = payload.source.max_expansion, limits.most_workers
    source = replace(existing.payload.source, max_expansion=expansion)
    record = replace(
        existing,
        payload=replace(existing.payload, source=source, options=limits.options),
        workers=existing.workers if most_workers == existing.most_workers else most_workers,
        most_workers=most_workers,
        write_price=limits.write_price,
        capacity=limits.capacity,
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

    Importing what is left detects changes. A run that is done has nothing left, so all of its files
    are looked at, which unlike objects cost no requests.
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
