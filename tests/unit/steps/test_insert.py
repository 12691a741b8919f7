"""`insert`: whose an identical item is, whatever is killed, doubled, cut or comes late."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from ddbload import errors
from ddbload.contracts.results import ExecutionOutput, Report
from ddbload.contracts.row_counts import RowCounts
from ddbload.contracts.run_record import Cursor
from ddbload.contracts.states import ReportTask
from ddbload.ledger import ledger as ledger_module
from ddbload.ledger.ledger import Attempt
from ddbload.rows import block_splitter
from ddbload.steps.report import report_execution
from ddbload.write.scheduler.scheduler import Scheduler
from tests.fakes.client import Script, ServiceError, read_timeout
from tests.fakes.dynamodb_faults import Fault, fails
from tests.unit.steps.chaos import Chaos, Event, Killed, Plan
from tests.unit.steps.world import RUN, TABLE, World

INSERT = {"mode": "insert"}
ROWS = 8
MOMENTS = 60
"""More than an import of these rows has."""


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
    monkeypatch.setattr(block_splitter, "BLOCK_BYTES", 14)
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
    chaos.run()
    chaos.finish()
    report = world.report()
    assert report.status == "SUCCEEDED"
    assert report.rows.conserved
    return chaos, report


# What is there already.


def test_insert_skips_rows_of_another_run():
    it = world(full=True)
    report = it.run()
    assert report.rows == RowCounts(read=ROWS, skipped=ROWS)
    assert report.identical == ROWS
    assert it.read_json("report.json")["identical"] == ROWS


@pytest.mark.parametrize("seconds", [1.0, 2.5, 7.0])
@pytest.mark.parametrize("chunk_bytes", [1, 30, 10**6])
def test_insert_skips_rows_of_another_run_wherever_invocations_end(seconds, chunk_bytes):
    it = world(full=True, chunk_bytes=chunk_bytes)
    report = it.run(seconds)
    assert report.rows == RowCounts(read=ROWS, skipped=ROWS)
    assert report.identical == ROWS


@pytest.mark.parametrize("after", range(1, ROWS))
def test_insert_skips_rows_of_another_run_when_stopped_at_any_row(after):
    it = world(full=True)
    it.preflight()
    (chunk,) = it.manifest

    def stop() -> bool:
        puts = sum(call.operation == "put_item" for call in it.dynamodb.calls)
        # Those that filled the table are no part of it.
        return puts - ROWS >= after

    result = it.import_step(chunk, context=it.context(should_stop=stop))
    assert result.cursor is not None
    it.import_step(chunk, result.cursor)
    assert it.report().rows == RowCounts(read=ROWS, skipped=ROWS)


def test_insert_skips_rows_of_another_run_when_throttled():
    it = world(full=True)
    it.dynamodb.faults.add("put_item", fails("ProvisionedThroughputExceededException"), times=5)
    assert it.run(9.0).rows == RowCounts(read=ROWS, skipped=ROWS)


def test_insert_counts_identical_items_apart_from_others():
    it = world(12)
    for number in range(0, 12, 3):
        text = "x" if number % 2 else "theirs"
        item = {"id": {"S": f"r{number:03d}"}, "a": {"S": text}}
        it.dynamodb.put_item(TableName=TABLE, Item=item)
    report = it.run(3.0)
    assert report.rows == RowCounts(read=12, written=8, skipped=4)
    assert report.identical == 2


def test_insert_counts_row_as_written_when_answer_was_lost():
    it = world(full=True)
    # Of the request for the first two rows.
    lost = Fault(raises=read_timeout())
    it.dynamodb.faults.add("batch_execute_statement", lost)
    report = it.run()
    assert report.rows == RowCounts(read=ROWS, written=2, skipped=ROWS - 2)
    assert report.identical == ROWS - 2
    # They were there before; but only the lost answer knew.
    assert report.uncertain == 2


def import_with_denied_statements(it):
    """Import until DynamoDB denies all statements of a request but the first; return the chunk."""
    it.preflight()
    (chunk,) = it.manifest
    denied = Fault(statement=lambda place: "AccessDenied" if place else None)
    it.dynamodb.faults.add("batch_execute_statement", None, denied)
    with pytest.raises(errors.AccessDenied):
        it.import_step(chunk)
    return chunk


def test_insert_counts_rows_as_written_that_were_put_beside_a_denied_one():
    it = world()
    chunk = import_with_denied_statements(it)
    assert len(it.items) == 3
    it.import_one(chunk)
    report = it.report()
    assert report.rows == RowCounts(read=ROWS, written=ROWS)
    assert report.identical == 0


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


@pytest.mark.parametrize("mode", ["insert", "put"])
def test_rows_of_a_denied_request_are_not_counted_as_written(mode):
    """DynamoDB denies a request before it writes anything."""
    it = world(mode=mode)
    it.preflight()
    (chunk,) = it.manifest
    for operation in ("batch_execute_statement", "put_item", "batch_write_item"):
        it.dynamodb.faults.add(operation, fails("AccessDeniedException"), times=9)
    with pytest.raises(errors.AccessDenied):
        it.import_step(chunk)
    it.dynamodb.faults = Script()
    assert it.items == []
    fill(it)
    it.import_one(chunk)
    rows = it.report().rows
    assert (rows.skipped, rows.written) == ((ROWS, 0) if mode == "insert" else (0, ROWS))


# Kills, and an empty table.


@pytest.mark.parametrize("event", [Event.KILL, Event.LATE, Event.DOUBLE, Event.OTHERS, Event.FAIL])
@pytest.mark.parametrize("chunk_bytes", [40, 10**6])
def test_insert_counts_own_rows_as_written_when_killed_at_any_moment(event, chunk_bytes):
    happened = 0
    for moment in range(MOMENTS):
        # Each of eight failures at every sixth moment, and one of them at the others.
        for how in range(moment % 2, 8, 2) if event is Event.FAIL and moment % 3 == 0 else (0,):
            it = world(chunk_bytes=chunk_bytes)
            chaos, report = survive(it, (moment, event, how))
            assert report.rows == RowCounts(read=ROWS, written=ROWS), (moment, how)
            assert report.identical == 0
            happened += len(chaos.happened)
    assert happened > ROWS


@pytest.mark.parametrize("first", [Event.DEADLINE, Event.KILL, Event.LATE, Event.DOUBLE])
@pytest.mark.parametrize("second", [Event.KILL, Event.LATE, Event.DOUBLE, Event.STOP])
def test_insert_counts_own_rows_as_written_when_killed_twice(first, second):
    for number, moment in enumerate(range(0, MOMENTS, 3)):
        gap = (0, 2, 5, 11)[number % 4]
        it = world()
        _, report = survive(it, (moment, first, 0), (gap, second, 0), (gap, Event.LAND, 0))
        assert report.rows == RowCounts(read=ROWS, written=ROWS), (moment, gap)


@pytest.mark.parametrize("event", [Event.KILL, Event.LATE, Event.DOUBLE])
def test_attempt_bounds_rows_in_doubt_after_kill(event):
    count = 30
    happened = 0
    for moment in range(0, 100, 3):
        chaos, report = survive(world(count, full=True), (moment, event, 0))
        assert report.rows.written + report.rows.skipped == count
        # Rows that are told of together, those that it speaks for besides, and those in between.
        assert report.rows.written <= 2 + 2 + 2, moment
        assert report.identical == report.rows.skipped
        happened += len(chaos.happened)
    assert happened > count


CONDITION = {"mode": "put", "condition": "attribute_not_exists(id)"}


@pytest.mark.parametrize("options", [INSERT, CONDITION], ids=["insert", "condition"])
@pytest.mark.parametrize("there", [0, 1, 2], ids=["empty", "full", "half"])
@pytest.mark.parametrize("event", [Event.KILL, Event.LATE, Event.DOUBLE, Event.FAIL])
def test_rows_that_a_run_wrote_lie_within_bounds(options, there, event):
    """Whatever was killed or lost: written less uncertain, the truth, written, in this order."""
    happened = uncertain = 0
    for moment in range(0, MOMENTS, 4):
        it = world(chunk_bytes=30, **options)
        keys = [f"r{number:03d}" for number in range(ROWS)]
        held = keys[::there] if there else []
        fill(it, set(keys).difference(held))
        chaos, report = survive(it, (moment, event, moment // 4))
        rows, truth = report.rows, ROWS - len(held)
        assert rows.written - report.uncertain <= truth <= rows.written, moment
        assert rows.written + rows.skipped == ROWS
        assert report.uncertain == 0 or chaos.happened
        happened += len(chaos.happened)
        uncertain += report.uncertain
    assert happened
    assert uncertain or event is Event.FAIL


def test_insert_counts_items_that_are_not_shown_within_bounds():
    """Emulators only report that the condition failed, without the item."""
    it = world()
    it.preflight()
    (chunk,) = it.manifest
    it.dynamodb.faults.add("batch_execute_statement", None, Fault(raises=Killed(), landed=True))
    with pytest.raises(Killed):
        it.import_step(chunk)
    written = len(it.items)
    assert 0 < written < ROWS
    refused = Fault(raises=ServiceError("ConditionalCheckFailedException", 400))
    there = {item["id"]["S"] for item in it.items}
    it.dynamodb.faults.decide = lambda operation, params: (
        refused if operation == "put_item" and params["Item"]["id"]["S"] in there else None
    )
    it.import_one(chunk)
    report = it.report()
    assert report.rows == RowCounts(read=ROWS, written=ROWS)
    assert report.uncertain == written
    assert report.identical is None


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


# The first of equal keys.


def test_insert_skips_later_row_of_same_key():
    it = World(b"id,a\nk,x\nk,x\nj,x\nk,x\n", options=INSERT)
    report = it.run()
    assert report.rows == RowCounts(read=4, written=2, skipped=2)
    assert report.identical == 2


def test_insert_skips_later_row_of_same_key_after_kill():
    it = World(b"id,a\nk,x\nk,x\nj,x\nk,x\n", options=INSERT)
    it.preflight()
    (chunk,) = it.manifest
    it.dynamodb.faults.add("put_item", None, None, Fault(raises=Killed(), landed=True))
    with pytest.raises(Killed):
        it.import_step(chunk)
    it.import_one(chunk)
    rows_counted = it.report().rows
    assert rows_counted.read == 4
    # Which of the key's rows put the item is known where they are known at a time.
    assert 2 <= rows_counted.written <= 3


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


@pytest.mark.parametrize("full", [True, False])
def test_attempt_is_not_trimmed_when_chunk_is_finished(full):
    it = world(full=full)
    it.preflight()
    (chunk,) = it.manifest
    it.import_one(chunk)
    ((_, reach),) = ranges(it)
    assert reach == chunk.end


def test_attempt_is_trimmed_when_deadline_ends_invocation():
    it = world()
    it.preflight()
    (chunk,) = it.manifest
    result = it.import_step(chunk, context=it.context(1.5))
    assert result.cursor is not None
    assert ranges(it) == [(result.cursor.byte, result.cursor.byte)]


def throttle_first_row(operation: str, params: dict[str, Any]) -> Fault | None:
    if operation == "put_item":
        first = params["Item"]["id"]["S"] == "r000"
        return fails("ProvisionedThroughputExceededException") if first else None
    if operation != "batch_execute_statement":
        return None
    ids = [statement["Parameters"][0]["S"] for statement in params["Statements"]]
    return Fault(unprocessed=lambda place, _: ids[place] == "r000")


def test_attempt_covers_rows_written_beyond_segment():
    it = world()
    it.preflight()
    (chunk,) = it.manifest
    # The first row does not go through; the second does.
    it.dynamodb.faults.decide = throttle_first_row
    result = it.import_step(chunk, context=it.context(6.0))
    assert result.segment is None
    put = len(it.items)
    assert put
    assert ranges(it) == [(chunk.start, chunk.start + 7 * put + 1)]
    it.dynamodb.faults.decide = None
    it.import_one(chunk)
    assert it.report().rows == RowCounts(read=ROWS, written=ROWS)


def test_attempt_is_not_recorded_in_other_modes():
    for mode in ("put", "last-wins", "delete"):
        at = {"position_attribute": "at"} if mode == "last-wins" else {}
        it = World(rows(ROWS), options={"mode": mode, **at})
        report = it.run()
        assert attempts_of(it) == []
        assert report.identical is None
        assert "identical" not in it.read_json("report.json")


def test_attempt_excludes_rows_before_first_written():
    it = world(30, full=True)
    it.preflight()
    (chunk,) = it.manifest
    told: list[ledger_module.Range] = []

    def look(_operation: str, _params: object) -> None:
        told.extend(each for each in ranges(it) if each not in told)

    it.dynamodb.faults.decide = look
    it.import_one(chunk)
    assert len(told) > 2
    assert told == sorted(told)
    # Where this is killed, so few rows are in doubt.
    assert max(reach - first for first, reach in told) <= 7 * 6


def test_attempt_includes_rows_from_first_written_on():
    it = world(30)
    for number in range(30):
        if number != 4:
            item = {"id": {"S": f"r{number:03d}"}, "a": {"S": "x"}}
            it.dynamodb.put_item(TableName=TABLE, Item=item)
    it.preflight()
    (chunk,) = it.manifest
    it.dynamodb.faults.add("put_item", *[None] * 20, Fault(raises=Killed()))
    with pytest.raises(Killed):
        it.import_step(chunk)
    ((first, reach),) = ranges(it)
    assert first <= chunk.start + 7 * 4
    assert reach > chunk.start + 7 * 20
    it.import_one(chunk)
    found = it.report().rows
    assert found.read == found.written + found.skipped == 30
    assert found.written >= 1


def attempt_of(it: World, start: int) -> Attempt:
    (chunk,) = it.manifest
    return Attempt(it.ledger, chunk, Cursor(start, 2))


def test_attempt_ignores_record_that_arrives_late():
    it = world()
    it.preflight()
    start = it.manifest[0].start
    one, other = attempt_of(it, start), attempt_of(it, start)
    assert one.others(10**9) == []
    other.cover(start + 14, 2, lambda: start)
    (early,) = attempts_of(it)
    other.cover(start + 42, 6, lambda: start + 14)
    it.store.objects[f"runs/{RUN}/{early}"] = b""
    assert one.others(10**9) == [(start + 14, start + 42 + 14)]
    assert one.others(start + 20) == [(start + 14, start + 20)]
    assert one.others(start) == []
    assert other.others(10**9) == []
    other.trim(start + 21, start + 22)
    assert one.others(10**9) == [(start + 21, start + 22)]


def test_attempt_merges_ranges_of_several_invocations():
    it = world()
    it.preflight()
    start = it.manifest[0].start
    said = [(0, 5), (3, 9), (9, 12), (20, 30), (22, 25), (40, 40)]
    for first, reach in said:
        attempt = attempt_of(it, start)
        attempt.cover(start + 1, 1, lambda: start)
        attempt.trim(first, reach)
    assert attempt_of(it, start).others(10**9) == [(0, 12), (20, 30)]
    assert attempt_of(it, start).others(24) == [(0, 12), (20, 24)]


def test_attempt_with_invalid_name_is_damage():
    it = world(full=True)
    it.preflight()
    it.ledger.put_attempt(0, "x")
    with pytest.raises(errors.LedgerDamaged, match="attempts/ has 'x'"):
        it.import_step(it.manifest[0])


def test_rows_are_not_sent_when_attempt_cannot_be_recorded():
    it = world(30)
    it.preflight()
    (chunk,) = it.manifest

    def refuse(moment: str, name: str, _data: bytes) -> None:
        if moment == "put" and "/attempts/" in name and len(attempts_of(it)) >= 2:
            raise errors.ServiceUnavailable("the ledger cannot be reached")

    it.store.hook = refuse
    with pytest.raises(errors.ServiceUnavailable):
        it.import_step(chunk)
    segment = it.ledger.find_segment(0, chunk.start)
    assert segment is not None
    assert 0 < segment.rows.written == len(it.items) < 30
    it.store.hook = lambda *_: None
    it.import_one(chunk, 3.0)
    assert it.report().rows == RowCounts(read=30, written=30)


def test_identical_is_unknown_when_items_are_not_returned():
    """Emulators only report that the condition failed, without the item."""
    it = world(full=True)
    refused = Fault(raises=ServiceError("ConditionalCheckFailedException", 400))
    it.dynamodb.faults.decide = lambda operation, _: refused if operation == "put_item" else None
    report = it.run()
    assert report.rows == RowCounts(read=ROWS, skipped=ROWS)
    assert report.identical is None


def test_attempts_of_another_run_are_refused():
    it = world(full=True)
    it.preflight()
    (chunk,) = it.manifest
    it.store.objects[f"runs/{RUN}/attempts/00000/{'0' * 16}-0-000000-5-500"] = b""
    with pytest.raises(errors.LedgerDamaged, match="was not written by this run"):
        it.import_one(chunk)
