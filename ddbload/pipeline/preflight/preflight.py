"""Preflight: check everything, pin the source, and cut it into chunks of whole rows."""

from __future__ import annotations

from dataclasses import replace

from ddbload.contracts.chunks import Chunk, ListingCursor, ManifestPart, PreflightCursor
from ddbload.contracts.payload import Payload, check_run_id
from ddbload.contracts.results import DONE
from ddbload.contracts.run_record import Resume, RunRecord
from ddbload.contracts.states import PreflightResult, PreflightTask
from ddbload.dynamodb.write_modes import INSERT
from ddbload.errors import Cancelled, InvalidPayload, LedgerDamaged, RunMismatch
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.context import Context
from ddbload.pipeline.executions import check_input
from ddbload.pipeline.preflight.begin_run import begin_run, take_up_run
from ddbload.pipeline.preflight.chunker import Chunker
from ddbload.pipeline.preflight.find_objects import list_source
from ddbload.pipeline.preflight.prepare import check_settings
from ddbload.pipeline.run_requests import keep_request, resumed_payload
from ddbload.pipeline.table_notices import has_statements, table_notices
from ddbload.pipeline.upload_turns import wait_for_turn


def preflight(task: PreflightTask, context: Context) -> PreflightResult | PreflightTask:
    """Check and pin the source, then cut it into chunks until the end or the deadline.

    Until the objects of a source that has several are listed, the task of the next invocation is
    returned. The first invocation thereafter checks the payload, the table and the header, and
    writes `run.json`; nothing but the request and the listing is written before every check has
    passed. Raises the named error of a failed check.
    """
    if task.cursor is None or isinstance(task.cursor, ListingCursor):
        payload = _payload(task, context)
        context = context.confined(payload.source)
        run = _run_id(payload, task, context)
        ledger = context.ledger(run)
        earlier = keep_request(ledger, payload, task.execution, context)
        _require_not_cancelled(ledger)
        context.access.check_table(payload.table)
        check_settings(payload)
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
        if task.execution is not None:
            ledger.put_execution(task.execution)
        first = record.data_start
        cursor = PreflightCursor(first.byte, first.line, 0)
        whole = ledger.find_manifest()
        if whole is not None:
            read = _read_parts(record, ledger)
            if whole != read.chunks:
                raise LedgerDamaged(
                    f"the manifest of run {run} is not what its parts say; start a new run (another"
                    " run id)"
                )
            record = _put_counts(record, read, ledger)
            return _result(task, record, None, ledger, len(whole))
        if record.loads_nothing:
            return _result(task, _write_manifest(record, ledger), None, ledger, 0)
    else:
        ledger = context.ledger(check_run_id(task.run))
        _require_not_cancelled(ledger)
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
        record = _write_manifest(record, ledger)
    return _result(task, record, part.cursor, ledger, chunks)


def _warn(record: RunRecord, context: Context) -> None:
    """Report warnings about the table to `context.notice`, if set."""
    if context.notice is None or record.loads_nothing:
        return
    options = record.payload.options
    # A function may not send statements in preflight, and AWS knows them.
    if options.mode == INSERT and not context.in_account and not has_statements(context.clients):
        context.notice(
            "this endpoint does not know BatchExecuteStatement, so mode insert sends each row in a"
            " request of its own, by PutItem"
        )
    for notice in table_notices(context.clients, record.table.name, options, context.now()):
        context.notice(notice)


def _require_not_cancelled(ledger: Ledger) -> None:
    control = ledger.find_control()
    if control is not None and control.cancelled:
        raise Cancelled.of(ledger.run)


def preflight_in_turn(task: PreflightTask, context: Context) -> PreflightResult | PreflightTask:
    """Run preflight once the runs of older uploads of the same key have ended.

    Until then, return the task with the seconds to wait. Raises `UploadSuperseded` if a newer
    upload is being loaded, and as `preflight`.
    """
    if task.cursor is None:
        payload = _payload(task, context)
        run = _run_id(payload, task, context)
        keep_request(context.ledger(run), payload, task.execution, context)
        waiting = wait_for_turn(task, payload, run, context)
        if waiting is not None:
            return waiting
    return preflight(task, context)


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
    report = context.ledger(run).find_report()
    return report is not None and report.status in DONE


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


def _write_manifest(record: RunRecord, ledger: Ledger) -> RunRecord:
    """Write the whole manifest, and the record with its counts."""
    manifest = _read_parts(record, ledger)
    record = _put_counts(record, manifest, ledger)
    ledger.put_manifest(manifest.chunks)
    return record


def _put_counts(record: RunRecord, manifest: ManifestPart, ledger: Ledger) -> RunRecord:
    """Write the size and the number of workers into the record, now that all chunks are cut.

    For a compressed source both are unknown before, and its size is unless preflight read it.
    """
    size, chunks = record.size, manifest.chunks
    if size is None and not manifest.padded:
        size = chunks[-1].end if chunks else record.data_start.byte
    workers = max(1, min(record.most_workers or record.workers, len(chunks)))
    counted = replace(record, size=size, workers=workers, padded=manifest.padded)
    if counted != record:
        ledger.put_record(counted)
    return counted
