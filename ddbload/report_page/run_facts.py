"""Everything that the page shows of a run, and what follows from it for the reader. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.control import Control
from ddbload.contracts.results import ALREADY_LOADED, DONE, Report, Segment, repeated_keys
from ddbload.contracts.run_record import RunRecord
from ddbload.dynamodb.modes import mode_of
from ddbload.errors import is_resumable
from ddbload.report_page.reject_causes import RejectTally

RUNNING_STATUS = "RUNNING"
_THROTTLED_SHARE = 0.1
"""Share of throttled requests from which the page says that the table was the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A run as its ledger shows it at one moment."""

    report: Report
    record: RunRecord | None
    """None for a run that ended before its record was written."""
    ledger: str
    """Location of the ledger, as `--ledger` takes it."""
    deployed: bool
    """True if a deployed state machine worked on the run."""
    now: float
    """Seconds since the epoch."""
    control: Control | None = None
    chunks: Sequence[Chunk] = ()
    chains: Sequence[Sequence[Segment]] = ()
    """Segments of each chunk that count."""
    left_out: int = 0
    """Segments, if they are too many to be drawn: then `chunks` and `chains` are empty."""
    rejects: RejectTally | None = None

    @property
    def is_plan(self) -> bool:
        """True if nothing was sent."""
        return self.record is not None and not self.record.mode.writes

    @property
    def limits(self) -> Control | None:
        """Limits in force at the end."""
        if self.control is not None or self.record is None:
            return self.control
        return Control.of(self.record.payload.options)

    @property
    def limits_changed(self) -> bool:
        """True if the limits at the end are not those that the run began with."""
        limits = self.limits
        if self.record is None or limits is None:
            return False
        first = Control.of(self.record.payload.options)
        return (limits.max_wcu, limits.max_cost) != (first.max_wcu, first.max_cost)


def list_next_steps(facts: RunFacts) -> Iterator[tuple[str, str]]:
    """Choose the commands that help with this run, each with its purpose."""
    report = facts.report
    there = [] if facts.deployed else ["--ledger", facts.ledger]

    def command(*words: str) -> str:
        return shlex.join(["ddbload", *words, *there])

    error = report.error
    is_open = facts.record is not None and report.status not in (*DONE, RUNNING_STATUS)
    if is_open and (error is None or is_resumable(error.name)):
        yield command("resume", report.run), "import what is missing, and only that"
    loaded = report.loaded_before
    if loaded is not None and loaded.rejected:
        yield command("rejects", loaded.run), "list the rejects of the earlier run"
    if report.rows.rejected:
        name = "rejects.jsonl"
        yield command("rejects", report.run, "--summary"), "count rejects by cause"
        yield (
            f"{command('rejects', report.run)} > {name}",
            "write the rejects to a file, to mend it",
        )
        yield command("rejects", report.run, "--retry", name), "load the mended rows, as a new run"
    yield command("status", report.run), "see whether the run is still at work"


def list_remarks(facts: RunFacts) -> Iterator[str]:
    """Write what a reader should know, and could overlook among the figures."""
    report = facts.report
    rows, work, loaded = report.rows, report.work, report.loaded_before
    if loaded is not None:
        what = "nothing was left to load" if report.status == ALREADY_LOADED else "left out"
        yield f"{what}: the table had loaded {loaded.text}"
    if rows.rejected:
        yield (
            f"{rows.rejected:,} of {rows.read:,} rows were rejected and not"
            f" {mode_of(report.mode).written}; they are kept with their causes, and can be mended"
            " and loaded"
        )
    if report.uncertain:
        yield report.written_text
    if report.repeated:
        yield repeated_keys(report.repeated)
    if rows.skipped and not facts.is_plan:
        same = "" if report.identical is None else f"; {report.identical:,} items are identical"
        reason = mode_of(report.mode).skip_reason
        yield f"{rows.skipped:,} rows were skipped because {reason}{same}"
    if rows.filtered:
        yield f"{rows.filtered:,} rows were left out, because they do not match the run's filter"
    if facts.left_out:
        left_out = f"{facts.left_out:,} invocations"
        yield f"the charts of workers and chunks are left out: the run has {left_out}"
    if work.throttled > _THROTTLED_SHARE * max(1, work.requests):
        yield (
            f"{work.throttled / max(1, work.requests):.0%} of the requests were throttled: the"
            " table's write capacity, or that of single partitions, limited the speed"
        )
