"""One message of each kind, with every field set."""

from __future__ import annotations

from ddbload.contracts.options import Options
from ddbload.contracts.payload import Payload
from ddbload.contracts.results import Failure, Report, Segment
from ddbload.contracts.row_counts import RowCounts, WriteStats
from ddbload.contracts.run_record import Cursor, KeyAttribute, RunRecord, Table
from ddbload.contracts.source import Source

SOURCE = Source(
    format="tsv",
    delimiter="\t",
    quote=None,
    header=False,
    columns=("id", "né"),
    bucket="b",
    key="k/ü.tsv",
    version_id="v",
    etag="e",
)
PAYLOAD = Payload(SOURCE, "books", {"id": "N"}, Options(max_wcu=12.5, workers=3), "a-run")
TABLE = Table("books", "1234", (KeyAttribute("id", "N", 2048),), (KeyAttribute("né", "S", 1024),))
RECORD = RunRecord(
    run="a-run",
    payload=PAYLOAD,
    pinned={"version_id": "v", "etag": "e"},
    size=100,
    data_start=Cursor(3, 1),
    columns=("id", "né"),
    types=("N", "S"),
    table=TABLE,
    chunk_bytes=1000,
    workers=3,
    created=1.5,
    asked="0123456789abcdef",
)
SEGMENT = Segment(
    3,
    Cursor(0, 1),
    Cursor(90, 7),
    True,
    RowCounts(6, 4, 2),
    WriteStats(2, 1, 1, 3.5),
    "rejects/3/0-90.jsonl",
)
REPORT = Report(
    run="a-run",
    status="FAILED",
    rows=RowCounts(10, 6, 4),
    work=WriteStats(1, 2, 3, 4.5),
    bytes=90,
    size=100,
    chunks=2,
    chunks_done=1,
    seconds=0.25,
    rejects=None,
    error=Failure("IncompleteRun", "a chunk is missing"),
    failures=(Failure("RowTooLong", "the row at line 9", 1),),
)
