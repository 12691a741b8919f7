"""A report that takes several invocations: what it says, what it reads, and what it keeps."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from ddbload.contracts.results import ExecutionOutput, Failure, Report
from ddbload.contracts.states import ImportTask, PreflightTask, ReportCursor, ReportTask
from ddbload.errors import LedgerDamaged
from ddbload.ledger import counted_chunks
from ddbload.ledger.counted_chunks import SegmentSums
from ddbload.steps.import_chunk import import_chunk
from ddbload.steps.preflight import preflight
from ddbload.steps.report import report_execution
from tests.unit.steps.world import RUN, World

DATA = b"id,n\n" + b"".join(b"%d,%s\n" % (n, b"x" if n % 9 == 4 else b"1") for n in range(60))
ARN = "arn:aws:states:us-east-1:012345678912:execution:machine:name"
SOON = 1.0
"""Seconds until the deadline: fewer than the end of a report takes."""


@pytest.fixture(autouse=True)
def _few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted_chunks, "_SEGMENTS_AT_ONCE", 3)


@pytest.fixture
def world() -> World:
    """A run whose chunks are imported, but for the last."""
    world = World(DATA, types={"n": "N"}, options={"chunk_bytes": 20})
    preflight(PreflightTask(world.payload, RUN, execution=ARN), world.context())
    for chunk in world.manifest[:-1]:
        import_chunk(ImportTask(RUN, (chunk,)), world.context())
    return world


def import_last(world: World) -> None:
    import_chunk(ImportTask(RUN, world.manifest[-1:]), world.context())


def reported(world: World, seconds: float) -> tuple[ExecutionOutput, list[ReportCursor]]:
    task, cursors = ReportTask(RUN, execution=ARN), []
    while isinstance(made := report_execution(task, world.context(seconds)), ReportCursor):
        cursors.append(made)
        state = {"run": RUN, "execution": ARN, "chunks": 9, "report": made.to_json()}
        task = ReportTask.from_json(state)
    return made, cursors


def stored_report(world: World) -> Report:
    found = world.ledger.find_report()
    assert found is not None
    return replace(found, seconds=0.0)


def test_report_in_parts_is_that_of_one_invocation(world: World) -> None:
    import_last(world)
    read: Counter[str] = Counter()
    whole, none = reported(world, float("inf"))
    assert none == []
    expected = stored_report(world)
    assert expected.rows.rejected > 3
    del world.store.objects[f"runs/{RUN}/report.json"]
    world.store.hook = lambda moment, name, _: read.update([name] if moment == "get" else [])
    in_parts, cursors = reported(world, SOON)
    assert in_parts == whole
    assert stored_report(world) == expected
    assert len(cursors) >= len(world.manifest) // 3 - 1 > 3
    assert [each.chunk for each in cursors] == sorted({each.chunk for each in cursors})
    once = [name for name in read if "/chunks/" in name or "/rejects/" in name]
    assert len([name for name in once if "/chunks/" in name]) == len(world.manifest)
    # The segment that shows that a chunk has no more is read again by the next invocation.
    assert sum(read[name] for name in once) <= len(once) + len(cursors)
    assert {read[name] for name in once if "/rejects/" in name} == {1}
    page = world.store.objects.get(f"runs/{RUN}/report.html")
    assert page is not None


@pytest.mark.parametrize("change", ["run", "configuration", "sums", "gone"])
def test_part_of_another_run_is_refused(world: World, change: str) -> None:
    cursor = report_execution(ReportTask(RUN), world.context(SOON))
    assert isinstance(cursor, ReportCursor)
    (name,) = world.in_ledger("report-parts/")
    if change == "gone":
        del world.store.objects[f"runs/{RUN}/{name}"]
    else:
        world.write_json(name, {**world.read_json(name), change: "another"})
    with pytest.raises(LedgerDamaged):
        report_execution(ReportTask(RUN, report=cursor), world.context(SOON))


def test_parts_keep_all_sums(world: World) -> None:
    """A sum that is not kept would begin anew in each invocation."""
    import_last(world)
    found = counted_chunks.CountedChunks.read(world.ledger).sums
    found.damaged, found.reached, found.following = Failure("LedgerDamaged", "why"), 7, 8
    again = SegmentSums.from_json(json.loads(json.dumps(found.to_json())))
    assert vars(again) == vars(found)
    assert found.to_json().keys() == vars(found).keys()
