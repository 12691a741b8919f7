"""State of a run: each combination of facts, and what it means."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddbload.contracts import results
from ddbload.contracts.results import ExecutionAttempt, Failure, Heartbeat, Report
from ddbload.contracts.row_counts import RowCounts, WriteStats
from ddbload.ledger.run_state import Ending, RunState, StateFacts, judge, judge_attempt

NOW = 1_000.0
ARN, LATER = "arn:first", "arn:later"
INCOMPLETE = Failure("IncompleteRun", "chunk 1 is imported to byte 7 of 9")
CHUNK = Failure("NoProgress", "three times", 1)
REPLACED = Failure("TableReplaced", "another table")
DAMAGED = Failure("LedgerDamaged", "rejects are missing")
MAP = Failure("States.Runtime", "no such path")
REFUSED = Failure("TableNotFound", "no table")
CANCELLED, STOPPED = Failure("Cancelled", "by a user"), Failure("Interrupted", "Ctrl-C")


def report(
    status: str, error: Failure | None = None, *, done: int = 2, by: str | None = None
) -> Report:
    attempt = None if by is None else ExecutionAttempt(by)
    rows = RowCounts(read=10 * done, written=10 * done)
    return Report(
        *("r", status, rows, WriteStats(), 90, 90, 2, done, 50.0, None, error),
        attempt=attempt,
    )


COMPLETE, REJECTS = report("SUCCEEDED"), report("SUCCEEDED_WITH_REJECTS")
OPEN = report("FAILED", INCOMPLETE, done=1)
OPEN_CHUNK = report("FAILED", CHUNK, done=1)
BEATS = Heartbeat("running", "import", "h", "b", 1, NOW - 1, 2.0, RowCounts(), 0, 0)
SILENT, ENDED = replace(BEATS, at=NOW - 60), replace(BEATS, state="ended")


def ended(failure: Failure | None = None, **more: Any) -> Ending:
    return Ending(failure, attempt=ExecutionAttempt(ARN), began=950.0, seconds=40.0, **more)


ABORTED = ended(Failure("Aborted", "stopped"), aborted=True)

STATES: list[tuple[str, dict[str, Any], str, Failure | None]] = [
    # Somebody works on it.
    ("a process beats", {"counted": OPEN, "heartbeat": BEATS}, "RUNNING", None),
    ("done, and a process beats", {"counted": COMPLETE, "last": COMPLETE, "heartbeat": BEATS},
     "RUNNING", None),
    ("an execution runs", {"counted": OPEN, "execution_running": True}, "RUNNING", None),
    ("cancelled, and still at work", {"counted": OPEN, "execution_running": True,
     "cancelled": True}, "RUNNING", None),
    ("an execution runs over an old report", {"last": OPEN_CHUNK, "execution_running": True},
     "RUNNING", None),
    # No record.
    ("killed in preflight", {"has_record": False}, "INTERRUPTED", None),
    ("killed in preflight, silent", {"has_record": False, "heartbeat": SILENT},
     "INTERRUPTED", None),
    ("stopped in preflight", {"has_record": False, "request_failure": STOPPED},
     "INTERRUPTED", None),
    ("cancelled in preflight", {"has_record": False, "request_failure": CANCELLED},
     "CANCELLED", None),
    ("refused", {"has_record": False, "request_failure": REFUSED}, "FAILED", REFUSED),
    ("refused execution", {"has_record": False, "ending": ended(REFUSED)}, "FAILED", REFUSED),
    ("refused execution that both know", {"has_record": False, "request_failure": REFUSED,
     "ending": ended(REFUSED)}, "FAILED", REFUSED),
    ("aborted in preflight", {"has_record": False, "ending": ABORTED}, "CANCELLED", None),
    ("cancelled execution in preflight", {"has_record": False, "ending": ended(CANCELLED)},
     "CANCELLED", None),
    ("checked in preflight", {"has_record": False, "heartbeat": BEATS}, "RUNNING", None),
    # Complete, whatever else is said.
    ("done", {"counted": COMPLETE, "last": COMPLETE}, "SUCCEEDED", None),
    ("done with rejects", {"counted": REJECTS, "last": REJECTS}, "SUCCEEDED_WITH_REJECTS", None),
    ("loaded before", {"counted": report("ALREADY_LOADED", done=0),
     "last": report("ALREADY_LOADED", done=0)}, "ALREADY_LOADED", None),
    ("done, and killed afterwards", {"counted": COMPLETE, "last": COMPLETE, "heartbeat": SILENT},
     "SUCCEEDED", None),
    ("done, execution failed", {"counted": COMPLETE, "last": COMPLETE, "ending": ended(MAP)},
     "SUCCEEDED", None),
    ("done, execution aborted", {"counted": COMPLETE, "last": COMPLETE, "ending": ABORTED},
     "SUCCEEDED", None),
    ("complete without report, execution failed", {"counted": COMPLETE, "ending": ended(MAP)},
     "SUCCEEDED", None),
    ("complete without report, execution aborted", {"counted": REJECTS, "ending": ABORTED},
     "SUCCEEDED_WITH_REJECTS", None),
    ("complete after a report of an open chunk", {"counted": COMPLETE,
     "last": report("FAILED", MAP, done=1, by=ARN), "ending": ended(MAP)}, "SUCCEEDED", None),
    ("done and cancelled", {"counted": COMPLETE, "last": COMPLETE, "cancelled": True},
     "SUCCEEDED", None),
    ("complete, and nobody compared the table", {"counted": COMPLETE}, "INTERRUPTED", None),
    ("complete and cancelled, and nobody compared the table",
     {"counted": COMPLETE, "cancelled": True}, "CANCELLED", None),
    # The report alone knows it.
    ("table replaced", {"counted": COMPLETE, "last": report("FAILED", REPLACED)},
     "FAILED", REPLACED),
    ("table replaced, execution failed by it", {"counted": COMPLETE,
     "last": report("FAILED", REPLACED, by=ARN), "ending": ended(REPLACED)}, "FAILED", REPLACED),
    ("preflight of a resumed run failed", {"counted": OPEN_CHUNK,
     "last": report("FAILED", REFUSED, done=1, by=ARN), "ending": ended(REFUSED)},
     "FAILED", REFUSED),
    # Not complete.
    ("open chunk", {"counted": OPEN_CHUNK, "last": OPEN_CHUNK, "heartbeat": ENDED},
     "FAILED", CHUNK),
    ("interrupted", {"counted": OPEN, "last": report("INTERRUPTED", done=1)}, "INTERRUPTED", None),
    ("cancelled", {"counted": OPEN, "last": report("CANCELLED", done=1), "cancelled": True},
     "CANCELLED", None),
    ("cancelled, report not written", {"counted": OPEN_CHUNK, "cancelled": True},
     "CANCELLED", None),
    ("cancelled and damaged", {"counted": report("FAILED", DAMAGED, done=1), "cancelled": True,
     "ending": Ending()}, "FAILED", DAMAGED),
    ("killed", {"counted": OPEN, "heartbeat": SILENT}, "INTERRUPTED", None),
    ("process gone", {"counted": OPEN, "heartbeat": BEATS, "process_gone": True},
     "INTERRUPTED", None),
    ("killed after a report", {"counted": OPEN_CHUNK, "last": OPEN_CHUNK, "heartbeat": SILENT},
     "INTERRUPTED", None),
    ("killed after it was resumed", {"counted": OPEN, "last": report("CANCELLED", done=1),
     "heartbeat": SILENT}, "INTERRUPTED", None),
    ("killed and damaged", {"counted": report("FAILED", DAMAGED, done=1)}, "FAILED", DAMAGED),
    ("done before, and damaged since", {"counted": OPEN, "last": COMPLETE}, "FAILED", INCOMPLETE),
    ("execution failed", {"counted": OPEN, "ending": ended(MAP)}, "FAILED", MAP),
    ("execution failed, and a chunk", {"counted": OPEN_CHUNK, "ending": ended(MAP)},
     "FAILED", CHUNK),
    ("execution aborted", {"counted": OPEN, "ending": ABORTED}, "CANCELLED", None),
    ("execution aborted, and a chunk failed", {"counted": OPEN_CHUNK, "ending": ABORTED},
     "CANCELLED", None),
    ("execution aborted, after on_stopped", {"counted": OPEN, "cancelled": True,
     "last": report("CANCELLED", done=1, by=ARN), "ending": ABORTED}, "CANCELLED", None),
    ("execution aborted after the report of an earlier one", {"counted": OPEN_CHUNK,
     "last": report("FAILED", CHUNK, done=1, by="arn:earlier"), "ending": ABORTED},
     "CANCELLED", None),
    ("execution timed out after an earlier report", {"counted": OPEN,
     "last": report("FAILED", REFUSED, done=1, by="arn:earlier"), "ending": ended(MAP)},
     "FAILED", MAP),
    ("execution timed out, and its functions were cancelled", {"counted": OPEN, "cancelled": True,
     "ending": ended(MAP, timed_out=True)}, "FAILED", MAP),
    ("execution failed after a command's report", {"counted": OPEN,
     "last": replace(report("CANCELLED", done=1), seconds=10.0), "ending": ended(MAP)},
     "FAILED", MAP),
    ("forgotten execution", {"counted": OPEN}, "INTERRUPTED", None),
    # Segments not read: the report is believed.
    ("listed, done", {"last": COMPLETE}, "SUCCEEDED", None),
    ("listed, done, execution failed", {"last": COMPLETE, "ending": ended(MAP)},
     "SUCCEEDED", None),
    ("listed, loaded before", {"last": report("ALREADY_LOADED", done=0)}, "ALREADY_LOADED", None),
    ("listed, failed", {"last": OPEN_CHUNK}, "FAILED", CHUNK),
    ("listed, table replaced", {"last": report("FAILED", REPLACED)}, "FAILED", REPLACED),
    ("listed, interrupted", {"last": report("INTERRUPTED", done=1)}, "INTERRUPTED", None),
    ("listed, cancelled", {"last": report("CANCELLED", done=1), "cancelled": True},
     "CANCELLED", None),
    ("listed, killed", {"last": OPEN_CHUNK, "heartbeat": SILENT}, "INTERRUPTED", None),
    ("listed, without report", {}, "INTERRUPTED", None),
    ("listed, cancelled without report", {"cancelled": True}, "CANCELLED", None),
    ("listed, aborted", {"ending": ABORTED}, "CANCELLED", None),
    ("listed, aborted, after on_stopped", {"ending": ABORTED, "cancelled": True,
     "last": report("CANCELLED", done=1, by=ARN)}, "CANCELLED", None),
    ("listed, execution failed", {"ending": ended(MAP)}, "FAILED", MAP),
]  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "status", "error"), [each[1:] for each in STATES], ids=[each[0] for each in STATES]
)
def test_state_follows_from_facts(facts, status, error):
    state = judge(StateFacts(began=900.0, **facts), NOW)
    assert (state.status, state.error) == (status, error)
    assert state.running == (status == "RUNNING")
    assert state.done == (status in results.DONE)
    assert state.seconds is not None
    assert 0 <= state.seconds <= 100


def test_time_of_a_killed_run_ends_with_its_last_sign():
    killed = StateFacts(began=900.0, counted=OPEN, heartbeat=replace(SILENT, at=905.0))
    assert judge(killed, NOW).seconds == 5.0
    assert judge(replace(killed, last_sign=930.0), NOW).seconds == 30.0
    assert judge(replace(killed, last=COMPLETE), NOW).seconds == 50.0
    assert judge(replace(killed, heartbeat=None, ending=ended(MAP)), NOW).seconds == 40.0


def test_report_is_final_only_while_the_ledger_agrees_with_it():
    facts = StateFacts(began=900.0, counted=COMPLETE, last=COMPLETE)
    assert judge(facts, NOW).recorded
    assert not judge(replace(facts, last=report("SUCCEEDED", done=1)), NOW).recorded


DONE, FAILED = RunState("SUCCEEDED", done=True), RunState("FAILED", CHUNK)


@pytest.mark.parametrize(
    ("state", "ending", "own", "outcome"),
    [
        (DONE, Ending(), True, ("SUCCEEDED", None)),
        (DONE, ended(MAP), True, ("SUCCEEDED", None)),
        (DONE, ABORTED, True, ("SUCCEEDED", None)),
        (DONE, ABORTED, False, ("SUCCEEDED", None)),
        (DONE, ended(REFUSED), False, ("FAILED", REFUSED)),
        (DONE, ended(REFUSED, planned=False), True, ("FAILED", REFUSED)),
        (FAILED, ended(MAP), True, ("FAILED", CHUNK)),
        (FAILED, ended(REFUSED), False, ("FAILED", REFUSED)),
        (FAILED, ABORTED, False, ("CANCELLED", None)),
        (RunState("CANCELLED"), ABORTED, True, ("CANCELLED", None)),
        (RunState("RUNNING"), ended(REFUSED), False, ("FAILED", REFUSED)),
    ],
)
def test_outcome_of_an_attempt(state, ending, own, outcome):
    assert judge_attempt(state, ending, own=own) == outcome
