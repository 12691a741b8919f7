"""Add up the segments of a run, and check that they prove it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ddbload.contracts.options import EDGES
from ddbload.contracts.results import (
    ALREADY_LOADED,
    FAILED,
    SUCCEEDED,
    SUCCEEDED_WITH_REJECTS,
    Failure,
    Report,
)
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.run_record import RunRecord
from ddbload.dynamodb.write_modes import PLAN, written_word
from ddbload.errors import (
    TAKE_UP,
    ConservationViolated,
    DamagedCompression,
    IncompleteRun,
    NothingWritten,
    RowTooLong,
    SplitMismatch,
    TooManyRejects,
    UnterminatedQuote,
)
from ddbload.ledger.ledger import Ledger
from ddbload.pipeline.counted_chunks import CountedChunks, units_consumed

_FOUND_BY_WHOLE_SCAN = frozenset(
    each.__name__ for each in (DamagedCompression, RowTooLong, SplitMismatch, UnterminatedQuote)
)


def reconcile(record: RunRecord, ledger: Ledger, found: CountedChunks, seconds: float) -> Report:
    """Make the report of a run from its chunks, with the first error of their proof.

    Writes nothing.
    """
    sums, rows = found.sums, found.sums.rows
    open_chunks = set(sums.open)
    failures = [each for each in ledger.failures() if each.chunk in open_chunks]
    error = _first_error(record, found, failures) or sums.damaged
    causes = dict(sorted(sums.causes.items(), key=lambda each: (-each[1], each[0])))
    size = read = record.data_start.byte + sums.bytes
    if record.size is not None or not found.chunks or sums.done < len(found.chunks):
        # What preflight has not read is known once it is imported.
        size = record.size or 0
    return Report(
        run=record.run,
        status=_status(error, rows, record),
        rows=rows,
        work=replace(sums.work, consumed_wcu=units_consumed(sums, ledger)),
        bytes=read,
        size=size,
        chunks=len(found.chunks or ()),
        chunks_done=sums.done,
        seconds=max(0.0, seconds),
        rejects=ledger.rejects_uri if rows.rejected else None,
        error=error,
        failures=tuple(failures),
        planned=sums.planned if record.payload.options.mode == PLAN else None,
        write_price=record.write_price,
        identical=sums.identical if sums.identical_known else None,
        causes=causes or None,
        repeated=sums.repeated,
        uncertain=sums.uncertain,
        mode=record.payload.options.mode,
        loaded_before=record.loaded_before,
    )


def _status(error: Failure | None, rows: RowCounts, record: RunRecord) -> str:
    if error is not None:
        return FAILED
    if record.loads_nothing:
        return ALREADY_LOADED
    return SUCCEEDED_WITH_REJECTS if rows.rejected else SUCCEEDED


def _first_error(
    record: RunRecord, found: CountedChunks, failures: Sequence[Failure]
) -> Failure | None:
    rows = found.sums.rows
    if failures:
        first = failures[0]
        others = len(failures) - 1
        more = f" (and {others} more chunk{'s' * (others > 1)} failed)" if others else ""
        message = first.message + _rows_before(first, record, rows) + more
        return Failure(first.name, message, first.chunk)
    if not rows.conserved or not found.sums.conserved:
        words = {"written": written_word(record.payload.options.mode)}
        outcomes = [f"{count} {words.get(name, name)}" for name, count in rows.outcomes.items()]
        return Failure(
            ConservationViolated.__name__,
            f"{rows.read} rows read are not {' + '.join(outcomes)}: please report it",
        )
    incomplete = _incomplete(record, found)
    if rows.all_rejected and not incomplete:
        return Failure(
            NothingWritten.__name__,
            NothingWritten.of(
                rows.read,
                f"{_causes(found)}ddbload rejects {record.run} --summary says why",
                next(iter(dict(found.sums.causes.most_common(1))), None),
                written_word(record.payload.options.mode),
            ).message,
        )
    limit = record.payload.options.reject_limit
    # The rows that an incomplete run lacks may still bring a share below the limit.
    if (
        limit.surely_exceeded(rows.rejected, rows.read, record.most_rows_besides(found.sums.bytes))
        if incomplete
        else limit.exceeded(rows.rejected, rows.read)
    ):
        return Failure(
            TooManyRejects.__name__,
            f"{limit.describe(rows.rejected, rows.read)}: look at them, then mend the file, or"
            f" allow more and {TAKE_UP}",
        )
    if incomplete:
        return Failure(IncompleteRun.__name__, incomplete)
    return None


def _causes(found: CountedChunks) -> str:
    """Return the most frequent causes of rejects, for an error; empty where they are unknown."""
    causes = found.sums.causes.most_common(2)
    return "".join(f"{count:,} {cause}, " for cause, count in causes).removesuffix(", ") + (
        "; " if causes else ""
    )


def _rows_before(failure: Failure, record: RunRecord, rows: RowCounts) -> str:
    """Return how many rows were written before an error that a whole scan would have found."""
    found_late = failure.name in _FOUND_BY_WHOLE_SCAN and record.payload.options.scan == EDGES
    if not found_late or not rows.written:
        return ""
    were = "1 row was" if rows.written == 1 else f"{rows.written:,} rows were"
    return (
        f". {were} {written_word(record.payload.options.mode)} before; a new run with --scan whole"
        " (in a payload, options.scan) finds such errors before its first write"
    )


def _incomplete(record: RunRecord, found: CountedChunks) -> str | None:
    """Return what is missing from the proof that every byte was imported; None if complete."""
    again = f"; {TAKE_UP}"
    if found.chunks is None:
        return f"preflight did not finish{again}"
    position = record.data_start.byte
    for number, chunk in enumerate(found.chunks):
        if (chunk.chunk, chunk.start) != (number, position) or chunk.end <= chunk.start:
            return f"the manifest does not tile the source at byte {position}; start a new run"
        position = chunk.end
    if record.size is not None and position != record.size:
        return f"the manifest ends at byte {position} of {record.size}; start a new run"
    stopped = found.sums.stopped
    if stopped is None:
        return None
    reached = found.sums.reached
    return f"chunk {stopped.chunk} is imported to byte {reached} of {stopped.end}{again}"
