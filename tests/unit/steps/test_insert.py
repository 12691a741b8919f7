"""`insert`: whose an identical item is, whatever is killed, doubled, cut or comes late."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.results import ExecutionOutput, Report
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.states import ReportTask
from ddbload.ledger import ledger as ledger_module
from ddbload.rows import blocks
from ddbload.steps.report import report_execution
from ddbload.write.scheduler.scheduler import Scheduler
from tests.fakes.dynamodb_faults import Fault
from tests.unit.steps.chaos import Chaos, Event, Killed, Plan
from tests.unit.steps.world import RUN, TABLE, World

INSERT = {"mode": "insert"}
ROWS = 8
MOMENTS = 30
"""More than an import of these rows into an empty table has."""


def rows(count: int) -> bytes:
    return b"id,a\n" + b"".join(b"r%03d,x\n" % number for number in range(count))


def world(count: int = ROWS, *, full: bool = False, **more: object) -> World:
    """A table with all of the file's items, or with none. Rows are of seven bytes."""
    made = World(rows(count), options={**INSERT, **more}, request_seconds=1.0)
    if full:
        fill(made)
    return made


def fill(world: World, but: Collection[str] = ()) -> None:
    """Put the items of the file's rows as another run does, but for those with these keys."""
    for line in world.data.splitlines()[1:]:
        key, text = line.decode().split(",")
        if key not in but:
            world.dynamodb.put_item(TableName=TABLE, Item={"id": {"S": key}, "a": {"S": text}})


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch):
    """Read, offer and record a few rows at a time."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 14)
    monkeypatch.setattr(Scheduler, "READY_ROWS", 2)
    monkeypatch.setattr(ledger_module, "AHEAD_ROWS", 2)


def attempts_of(world: World) -> list[str]:
    return world.in_ledger("attempts/")


def ranges(world: World) -> list[ledger_module.Range]:
    """Return the last recorded range of each invocation."""
    # Each begins with the run's own mark.
    names = [name.rpartition("/")[2].partition("-")[2] for name in attempts_of(world)]
    return list(ledger_module._last_ranges(names).values())


def survive(world: World, *events: tuple[int, Event, int]) -> tuple[Chaos, Report]:
    chaos = Chaos(world, Plan(events, backwards=False, spares_preflight=True))
    report = chaos.conclude()
    assert report.status == "SUCCEEDED"
    assert report.rows.conserved
    return chaos, report


# What is there already.


def import_with_denied_statements(it):
    """Import until DynamoDB denies all statements of a request but the first; return the chunk."""
    it.preflight()
    (chunk,) = it.manifest
    denied = Fault(statement=lambda place: "AccessDenied" if place else None)
    it.dynamodb.faults.add("batch_execute_statement", None, denied)
    with pytest.raises(errors.AccessDenied):
        it.import_step(chunk)
    return chunk


def test_insert_skips_rows_of_another_run_whose_statements_were_denied():
    """DynamoDB denies a statement by itself, and writes nothing of it."""
    it = world()
    chunk = import_with_denied_statements(it)
    written = {item["id"]["S"] for item in it.items}
    assert len(written) == 3
    # Another run inserts the denied rows.
    fill(it, written)
    it.import_one(chunk)
    report = it.report()
    assert report.rows == RowCounts(read=ROWS, written=3, skipped=ROWS - 3)
    assert report.identical == ROWS - 3


# Kills, and an empty table.


@pytest.mark.parametrize("event", [Event.KILL, Event.LATE, Event.DOUBLE, Event.OTHERS, Event.FAIL])
def test_insert_counts_own_rows_as_written_when_killed_at_any_moment(event):
    happened = 0
    for moment in range(MOMENTS):
        # Each of eight failures at every sixth moment, and one of them at the others.
        for how in range(moment % 2, 8, 2) if event is Event.FAIL and moment % 3 == 0 else (0,):
            it = world(chunk_bytes=40)
            chaos, report = survive(it, (moment, event, how))
            assert report.rows == RowCounts(read=ROWS, written=ROWS), (moment, how)
            assert report.identical == 0
            happened += len(chaos.happened)
    assert happened > ROWS
    assert not chaos.happened, "there are more moments"


CONDITION = {"mode": "put", "condition": "attribute_not_exists(id)"}


@pytest.mark.parametrize("options", [INSERT, CONDITION], ids=["insert", "condition"])
@pytest.mark.parametrize("there", [0, 1, 2], ids=["empty", "full", "half"])
@pytest.mark.parametrize("event", [Event.KILL, Event.LATE, Event.DOUBLE, Event.FAIL])
def test_rows_that_a_run_wrote_lie_within_bounds(options, there, event):
    """Whatever was killed or lost: written less uncertain, the truth, written, in this order."""
    happened = uncertain = 0
    for moment in range(0, 48, 6):
        it = world(chunk_bytes=30, **options)
        keys = [f"r{number:03d}" for number in range(ROWS)]
        held = keys[::there] if there else []
        fill(it, set(keys).difference(held))
        chaos, report = survive(it, (moment, event, moment // 6))
        rows, truth = report.rows, ROWS - len(held)
        assert rows.written - report.uncertain <= truth <= rows.written, moment
        assert rows.written + rows.skipped == ROWS
        assert report.uncertain == 0 or chaos.happened
        happened += len(chaos.happened)
        uncertain += report.uncertain
    assert happened
    assert uncertain or event is Event.FAIL


def test_uncertain_rows_are_in_segment_report_event_and_page():
    it = world(full=True)
    it.preflight()
    (chunk,) = it.manifest
    it.dynamodb.faults.add("put_item", None, Fault(raises=Killed()))
    with pytest.raises(Killed):
        it.import_step(chunk)
    it.import_one(chunk)
    report = it.report()
    found = report.uncertain
    assert 0 < found == report.rows.written
    segment = it.ledger.find_segment(0, chunk.start)
    assert segment is not None
    assert segment.uncertain == found == it.read_json("report.json")["uncertain"]
    said = (
        f"{found} written, of which up to {found} may have been there before (an attempt was killed"
        " or stopped, or an answer was lost)"
    )
    assert report.written_text == said
    assert said in it.store.objects[f"runs/{RUN}/report.html"].decode()
    output = report_execution(ReportTask(RUN, {}, None), it.context())
    assert isinstance(output, ExecutionOutput)
    assert output.uncertain == found
    assert Report.from_json(report.to_json()) == report


# The objects.


def test_attempt_is_recorded_before_rows_are_sent():
    it = world()
    it.preflight()
    (chunk,) = it.manifest
    covered = [0]
    at: dict[str, int] = {f"r{number:03d}": chunk.start + 7 * number for number in range(ROWS)}

    def look(operation: str, params: dict[str, Any]) -> None:
        if operation != "batch_execute_statement":
            return
        ((first, reach),) = ranges(it)
        assert first == chunk.start
        for statement in params["Statements"]:
            assert at[statement["Parameters"][0]["S"]] < reach
            covered.append(reach)

    it.dynamodb.faults.decide = look
    it.import_one(chunk)
    assert len(covered) == ROWS + 1
    assert covered == sorted(covered)
    assert len(attempts_of(it)) < ROWS / 2


def test_attempt_with_invalid_name_is_damage():
    it = world(full=True)
    it.preflight()
    it.ledger.put_attempt(0, "x")
    with pytest.raises(errors.LedgerDamaged, match="attempts/ has 'x'"):
        it.import_step(it.manifest[0])


def test_attempts_of_another_run_are_refused():
    it = world(full=True)
    it.preflight()
    (chunk,) = it.manifest
    it.store.objects[f"runs/{RUN}/attempts/00000/{'0' * 16}-0-000000-5-500"] = b""
    with pytest.raises(errors.LedgerDamaged, match="was not written by this run"):
        it.import_one(chunk)
