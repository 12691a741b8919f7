"""Runs of every kind for tests of the page, made without importing anything."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ddbload.contracts.chunks import Chunk
from ddbload.contracts.options import Options
from ddbload.contracts.payload import Payload
from ddbload.contracts.results import Failure, Report, Segment
from ddbload.contracts.row_counts import ProgressSample, RowCounts, SegmentTimes, WriteStats
from ddbload.contracts.run_record import Cursor, KeyAttribute, RunRecord, Table, WritePrice
from ddbload.contracts.source import Source
from ddbload.report_page.page import RunFacts
from ddbload.report_page.reject_causes import RejectTally

BEGAN = 1_795_347_600.0
CHUNK_BYTES = 16 * 1024 * 1024


def record(chunks: int, **changes: Any) -> RunRecord:
    """Make the record of a run with this number of chunks."""
    source = Source(bucket="exports", key="2026/books.csv", version_id="Kx7f.Qp2")
    made = RunRecord(
        run="20261121T073000Z-1f2e3d",
        payload=Payload(source, "books", {}, Options(max_wcu=4000.0)),
        pinned={"etag": '"9b2cf535f27731c974343645a3985328"', "version_id": "Kx7f.Qp2"},
        size=40 + chunks * CHUNK_BYTES,
        data_start=Cursor(40, 2),
        columns=("book_id", "title", "year", "price"),
        types=("S", "S", "N", "N"),
        table=Table("books", "0f3a-77", (KeyAttribute("book_id", "S", 2048),)),
        chunk_bytes=CHUNK_BYTES,
        workers=8,
        created=BEGAN,
        asked="0123456789abcdef",
        write_price=WritePrice(0.625, "us-east-1", "eu-central-1"),
    )
    return replace(made, **changes)


def work(
    chunks: int,
    workers: int,
    *,
    parts: int = 1,
    seconds: float = 20.0,
    rejected: int = 0,
    pause_after: int | None = None,
    samples: bool = True,
) -> tuple[list[Chunk], list[list[Segment]]]:
    """Make chunks that workers have imported one after another, each in some parts."""
    rng = random.Random(7)
    free = [BEGAN + 2 + number * 0.7 for number in range(workers)]
    made, chains = [], []
    for number in range(chunks):
        start, end = 40 + number * CHUNK_BYTES, 40 + (number + 1) * CHUNK_BYTES
        made.append(Chunk(number, start, end, 2 + number * 1000))
        chain = []
        for part in range(parts):
            worker = free.index(min(free))
            took = seconds * rng.uniform(0.6, 1.4)
            began = free[worker]
            if pause_after is not None and number >= pause_after:
                began = max(began, BEGAN + 70_000 + worker)
            free[worker] = began + took + 0.2
            rows = 16_000 // parts
            units, throttled = rows * rng.uniform(1.0, 1.1), int(rng.expovariate(0.2))
            step = CHUNK_BYTES // parts
            last = part + 1 == parts
            times = SegmentTimes.of(
                f"{worker:08x}", began, began + took, _samples(took, rows, units, samples, rng)
            )
            refused = rejected if last and number % 5 == 0 else 0
            chain.append(
                Segment(
                    chunk=number,
                    start=Cursor(start + part * step, 2 + number * 1000),
                    end=Cursor(end if last else start + (part + 1) * step, 500 + number * 1000),
                    proven=last,
                    rows=RowCounts(rows, rows - refused, refused),
                    work=WriteStats(rows // 25, throttled, throttled // 2, round(units, 1)),
                    rejects="rejects/x" if refused else None,
                    times=times,
                )
            )
        chains.append(chain)
    return made, chains


def _samples(
    took: float, rows: int, units: float, wanted: bool, rng: random.Random
) -> Iterable[ProgressSample]:
    count = min(31, int(took)) if wanted else 0
    shares = sorted(rng.random() for _ in range(count))
    return [
        ProgressSample(
            took * (place + 1) / (count + 1), int(rows * share), int(units * share), place // 9
        )
        for place, share in enumerate(shares)
    ]


def facts(
    chunks: Iterable[Chunk],
    chains: list[list[Segment]],
    *,
    status: str = "SUCCEEDED",
    failures: tuple[Failure, ...] = (),
    error: Failure | None = None,
    rejects: Iterable[dict[str, Any]] = (),
    made: RunRecord | None = None,
    show_rows: bool = False,
    **changes: Any,
) -> RunFacts:
    """Make the facts of a run with these segments."""
    chunks = tuple(chunks)
    made = made or record(len(chunks))
    rows, total = RowCounts(), WriteStats()
    for chain in chains:
        for segment in chain:
            rows, total = rows + segment.rows, total + segment.work
    tally = RejectTally(made, show_rows=show_rows)
    for each in rejects:
        tally.add(json.dumps(each).encode() + b"\n")
    ends = [each.times.ended for chain in chains for each in chain if each.times is not None]
    report = Report(
        run=made.run,
        status=status,
        rows=rows,
        work=total,
        bytes=40 + sum(each.end.byte - each.start.byte for chain in chains for each in chain),
        size=made.size or 0,
        chunks=len(chunks),
        chunks_done=sum(bool(chain) and chain[-1].proven for chain in chains),
        seconds=max(ends, default=BEGAN + 3) - BEGAN,
        rejects="s3://work/runs/x/rejects/" if rows.rejected else None,
        error=error,
        failures=failures,
    )
    given: dict[str, Any] = {
        "report": report,
        "record": made,
        "now": max(ends, default=BEGAN) + 1,
        "chains": chains,
        "rejects": tally,
    }
    return RunFacts(**{**given, **changes})


def reject(number: int, cause: str = "not_a_number", **changes: Any) -> dict[str, Any]:
    """Make a line of rejects."""
    return {
        "line": number + 2,
        "byte": number * 30 + 40,
        "column": "year",
        "cause": cause,
        "detail": "not a valid number",
        "raw": f'B{number:06},"A title, with commas",19x8,12.50',
        **changes,
    }


def one_chunk() -> RunFacts:
    """A small run that succeeded."""
    return facts(*work(1, 1, seconds=6.0))


def many_chunks() -> RunFacts:
    """Forty chunks with continuations, failures, rejects and a pause before they were resumed."""
    chunks, chains = work(40, 6, parts=3, seconds=14.0, rejected=30, pause_after=22)
    for number, kept in ((7, 2), (31, 1), (38, 0)):
        del chains[number][kept:]
    ended = chains[7][-1].times
    assert ended is not None
    failures = (
        Failure(
            "TooManyRejects",
            "chunk 7 has more rejects than max_rejects allows (1000)",
            7,
            ended.ended,
        ),
        Failure(
            "SplitMismatch",
            "chunk 31 does not end at a row end: byte 536870952",
            31,
            BEGAN + 70_100,
        ),
        Failure("ServiceUnavailable", "writing items: ThrottlingException", 38),
    )
    lines = [reject(number, "not_a_number") for number in range(150)]
    lines += [
        reject(number, "field_count", column=None, detail="3 fields; the file has 4 columns")
        for number in range(60)
    ]
    return facts(
        chunks,
        chains,
        status="FAILED",
        failures=failures,
        error=replace(failures[0], message=failures[0].message + " (and 2 more chunks failed)"),
        rejects=lines,
    )


def failed_preflight() -> RunFacts:
    """A run that ended before its record was written."""
    made = facts([], [])
    error = Failure("TableNotFound", "table boks is not there: create it, or mend its name")
    report = replace(made.report, status="FAILED", error=error, size=0, seconds=1.2)
    return replace(made, report=report, record=None, rejects=None)


SCENES = {
    "one-chunk": one_chunk,
    "many-chunks": many_chunks,
    "failed-preflight": failed_preflight,
}
